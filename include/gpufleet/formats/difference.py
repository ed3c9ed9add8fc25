"""The difference of two plans as JSON and as lines for a person (docs/formats.md, section 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gpufleet.formats import table
from gpufleet.formats.plan import eviction, move, pod, repartition, request, to_json, waiting
from gpufleet.formats.table import after, places
from gpufleet.model.plan import Placement, Waiting
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling.what_if import Delta, Difference

T = TypeVar("T")
SHOWN = 20
"""Waiting jobs whose change of place a person is shown; JSON has them all."""


def difference_to_json(found: Difference, before: Snapshot) -> dict[str, Any]:
    """What only the change brings about, and under `plan` the whole plan with it."""
    old = {r.job.id: r.places for r in before.running}
    new = {r.job.id: r.places for r in found.snapshot.running}
    return {
        "summary": summary(found),
        "starts": [_placement(p) for p in found.starts],
        "no_longer_starts": [{"job": p.job, **_why(found, p.job)} for p in found.no_longer_starts],
        "elsewhere": [
            {"job": e.job, "before": [pod(p) for p in e.before.pods], "after": [pod(p) for p in e.after.pods]}
            for e in found.elsewhere
        ],
        "requeued": [
            {"job": r.job, "nodes": list(r.nodes), "restarts": _placement(r.restarts) if r.restarts else None}
            for r in found.requeued
        ],
        "cancelled": list(found.cancelled),
        "evictions": _delta(found.evictions, eviction, eviction),
        "moves": _delta(found.moves, lambda m: move(m, new[m.job]), lambda m: move(m, old[m.job])),
        "repartitions": _delta(found.repartitions, repartition, repartition),
        "pending": [
            {"job": w.job, "before": _waiting(w.before), "after": _waiting(w.after)} for w in found.waiting
        ],
        "capacity_requests": _delta(found.capacity_requests, request, request),
        "plan": to_json(found.plan, found.snapshot),
    }  # fmt: skip


def _placement(placement: Placement) -> dict[str, Any]:
    return {"job": placement.job, "after": list(placement.after), "pods": [pod(p) for p in placement.pods]}


def _why(found: Difference, job: str) -> dict[str, Any]:
    entry = next((w for w in found.plan.waiting if w.job == job), None)
    return {"reason": str(entry.reason) if entry else None, "detail": entry.detail if entry else ""}


def _waiting(entry: Waiting | None) -> dict[str, Any] | None:
    return None if entry is None else waiting(entry)


def _delta(found: Delta[T], added: Callable[[T], Any], removed: Callable[[T], Any]) -> dict[str, Any]:
    return {"added": [added(e) for e in found.added], "removed": [removed(e) for e in found.removed]}


# ---------------------------------------------------------------- for a person


def summary(found: Difference) -> str:
    """The sum of it in one sentence."""
    told = [words for count, words in _counts(found) if count]
    return f"With the change {', '.join(told)}." if told else "The change makes no difference to the plan."


def _counts(found: Difference) -> list[tuple[int, str]]:
    """(how many, words), in the order of the sentence."""
    told = {p.job for p in found.no_longer_starts} | {r.job for r in found.requeued}
    newly = [w for w in found.waiting if w.before is None and w.job not in told]
    otherwise = [w for w in found.waiting if w.before and w.after]
    one_or_more = (
        (found.starts, "more job starts", "more jobs start"),
        (found.no_longer_starts, "job no longer starts", "jobs no longer start"),
        (found.elsewhere, "job starts elsewhere", "jobs start elsewhere"),
        (found.requeued, "running job goes back into the queue", "running jobs go back into the queue"),
        (found.cancelled, "job is cancelled", "jobs are cancelled"),
        (found.evictions.added, "more job is stopped", "more jobs are stopped"),
        (found.evictions.removed, "job less is stopped", "jobs fewer are stopped"),
        (found.moves.added, "more job is moved", "more jobs are moved"),
        (found.moves.removed, "job less is moved", "jobs fewer are moved"),
        (found.repartitions.added, "more GPU is cut anew", "more GPUs are cut anew"),
        (found.repartitions.removed, "GPU less is cut anew", "GPUs fewer are cut anew"),
        (newly, "more job waits", "more jobs wait"),
        (
            otherwise,
            "job waits at another place or for another reason",
            "jobs wait at another place or for another reason",
        ),
        (found.capacity_requests.added, "more request for capacity is made", "more requests for capacity are made"),
        (found.capacity_requests.removed, "request for capacity is dropped", "requests for capacity are dropped"),
    )
    return [(len(e), f"{len(e)} {one if len(e) == 1 else more}") for e, one, more in one_or_more]


def difference_lines(found: Difference) -> list[str]:
    """The sum first, then each entry; `+` only with the change, `-` only without it, `~` otherwise than before."""
    return [summary(found), *_starts(found), *_disturbed(found), *_waits(found), *_capacity(found)]


def _starts(found: Difference) -> Iterator[str]:
    yield from (f"+ start {p.job} on {places(p.pods)}{after(p.after)}" for p in found.starts)
    for p in found.no_longer_starts:
        why = _why(found, p.job)
        yield f"- start {p.job} on {places(p.pods)}{after(p.after)}; it waits ({why['reason']}): {why['detail']}"
    for e in found.elsewhere:
        yield f"~ start {e.job} on {places(e.after.pods)}{after(e.after.after)} instead of {places(e.before.pods)}"


def _disturbed(found: Difference) -> Iterator[str]:
    for r in found.requeued:
        then = f"starts again on {places(r.restarts.pods)}{after(r.restarts.after)}" if r.restarts else "waits"
        yield f"~ {r.job} loses its place on {', '.join(r.nodes)} and is put back in the queue; it {then}"
    yield from (f"~ {job} is cancelled" for job in found.cancelled)
    yield from _signed(found.evictions, table.stop)
    yield from _signed(found.moves, table.move)
    yield from _signed(found.repartitions, lambda r: f"remake GPU {r.gpu} of {r.node}")


def _signed(delta: Delta[T], words: Callable[[T], str]) -> Iterator[str]:
    yield from (f"+ {words(e)}" for e in delta.added)
    yield from (f"- {words(e)}" for e in delta.removed)


def _waits(found: Difference) -> Iterator[str]:
    """Who waits otherwise; who starts or no longer starts was told already."""
    told = {p.job for p in (*found.starts, *found.no_longer_starts)}
    entries = [w for w in found.waiting if w.job not in told]
    for w in entries[:SHOWN]:
        if w.before is None and w.after is not None:
            yield f"+ {w.job} waits at place {w.after.position} ({w.after.reason}): {w.after.detail}"
        elif w.after is None and w.before is not None:
            yield f"- {w.job} waits no more (it was at place {w.before.position}, {w.before.reason})"
        elif w.before is not None and w.after is not None:
            yield (
                f"~ {w.job} waits at place {w.after.position} ({w.after.reason}) instead of "
                f"{w.before.position} ({w.before.reason}): {w.after.detail}"
            )
    if len(entries) > SHOWN:
        yield f"~ and {len(entries) - SHOWN} more waiting jobs change their reason or place (--json has them all)"


def _capacity(found: Difference) -> Iterator[str]:
    yield from _signed(found.capacity_requests, lambda r: f"capacity is asked for {r.for_job}")
