"""What an attempt says of itself (base.json, progress.json), and what it is asked (the control file)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpufleet.training.manifest.fields import VERSION, Fields, dump_object, instant_text
from gpufleet.training.manifest.paths import SaveRef

Metric = float | str | None
_LONGEST_NUMBER = 18
"""Digits of a number alone in a control file."""


class State(StrEnum):
    """Of the process, as far as it can say so itself: one that was killed still says `running`."""

    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A save that was passed over when the base was chosen, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Base:
    """What an attempt resumes from; `base` is None when it starts afresh. Written once per attempt."""

    job: str
    attempt: int
    base: SaveRef | None
    digest: str | None
    """The manifest's digest, so that every rank restores the very save that rank 0 verified."""
    chosen_at: datetime
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class LastSave:
    """The newest complete save of this attempt; `size` is in bytes."""

    step: int
    at: datetime
    seconds: float
    size: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt is. `step` counts the steps done; `total_steps` is None for work without an end."""

    job: str
    attempt: int
    step: int
    total_steps: int | None
    started_at: datetime
    at: datetime
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    base: SaveRef | None = None
    last_save: LastSave | None = None
    save_error: str | None = None
    skipped: tuple[Skipped, ...] = ()
    state: State = State.RUNNING
    request_done: int = 0
    peak_memory_mib: int | None = None
    """The most GPU memory that the framework's allocator held so far, on the rank that held most."""


@dataclass(frozen=True, slots=True)
class Control:
    """A request to save: a number larger than the last one done asks for one more; `by` is when it is worth nothing."""

    save: int = 0
    by: datetime | None = None


def dump_base(base: Base) -> bytes:
    return dump_object(
        {
            "version": VERSION,
            "job": base.job,
            "attempt": base.attempt,
            "base": _ref_values(base.base),
            "digest": base.digest,
            "chosen_at": instant_text(base.chosen_at),
            "skipped": _skipped_values(base.skipped),
        }
    )


def parse_base(data: bytes, where: str) -> Base:
    fields = Fields.parse(data, where).known_version()
    base = Base(
        job=fields.text("job"),
        attempt=fields.whole("attempt", least=1),
        base=_ref(fields),
        digest=fields.text_or_none("digest"),
        chosen_at=fields.instant("chosen_at"),
        skipped=_skipped(fields),
    )
    if (base.base is None) != (base.digest is None):
        raise ValueError(f"{where}: 'base' and 'digest' must both be there or both be null.")
    return base


def dump_progress(progress: Progress) -> bytes:
    """Raises ValueError for a metric that is not a finite number."""
    last = progress.last_save
    memory = {} if progress.peak_memory_mib is None else {"peak_memory_mib": progress.peak_memory_mib}
    return dump_object(
        {
            "version": VERSION,
            "job": progress.job,
            "attempt": progress.attempt,
            "step": progress.step,
            "total_steps": progress.total_steps,
            "started_at": instant_text(progress.started_at),
            "at": instant_text(progress.at),
            "metrics": dict(progress.metrics),
            "base": _ref_values(progress.base),
            "last_save": None if last is None else _last_save_values(last),
            "save_error": progress.save_error,
            "skipped": _skipped_values(progress.skipped),
            "state": progress.state.value,
            "request_done": progress.request_done,
        }
        | memory
    )


def parse_progress(data: bytes, where: str) -> Progress:
    """Asks for version, job, attempt, step and at; a job that writes the file by hand may leave out the rest."""
    fields = Fields.parse(data, where).known_version()
    return Progress(
        job=fields.text("job"),
        attempt=fields.whole("attempt", least=1),
        step=fields.whole("step"),
        total_steps=fields.whole_or_none("total_steps"),
        started_at=fields.instant_or_none("started_at") or fields.instant("at"),
        at=fields.instant("at"),
        metrics=fields.metrics("metrics"),
        base=_ref(fields),
        last_save=_last_save(fields.group("last_save")) if fields.has("last_save") else None,
        save_error=fields.text_or_none("save_error"),
        skipped=_skipped(fields),
        state=_state(fields, where),
        request_done=fields.whole_or_none("request_done") or 0,
        peak_memory_mib=fields.whole_or_none("peak_memory_mib"),
    )


def dump_control(control: Control) -> bytes:
    return dump_object({"save": control.save, "by": instant_text(control.by) if control.by else None})


def parse_control(data: bytes, where: str) -> Control:
    """A number alone is the number of a request: a cluster that can only show an annotation as a file shows that."""
    if (number := data.strip()).isdigit() and len(number) <= _LONGEST_NUMBER:
        return Control(save=int(number))
    fields = Fields.parse(data, where)
    return Control(save=fields.whole("save"), by=fields.instant_or_none("by"))


def _ref(fields: Fields) -> SaveRef | None:
    if not fields.has("base"):
        return None
    group = fields.group("base")
    return SaveRef(group.whole("attempt", least=1), group.whole("step"))


def _ref_values(ref: SaveRef | None) -> Mapping[str, int] | None:
    return None if ref is None else {"attempt": ref.attempt, "step": ref.step}


def _state(fields: Fields, where: str) -> State:
    try:
        return State(fields.text_or_none("state") or State.RUNNING)
    except ValueError as error:
        raise ValueError(f"{where}: 'state' must be one of {', '.join(State)}.") from error


def _last_save(fields: Fields) -> LastSave:
    return LastSave(fields.whole("step"), fields.instant("at"), fields.number("seconds"), fields.whole("bytes"))


def _last_save_values(last: LastSave) -> Mapping[str, object]:
    return {"step": last.step, "at": instant_text(last.at), "seconds": last.seconds, "bytes": last.size}


def _skipped(fields: Fields) -> tuple[Skipped, ...]:
    return tuple(Skipped(group.text("path"), group.text("why")) for group in fields.groups("skipped"))


def _skipped_values(skipped: tuple[Skipped, ...]) -> list[Mapping[str, str]]:
    return [{"path": skip.path, "why": skip.why} for skip in skipped]
