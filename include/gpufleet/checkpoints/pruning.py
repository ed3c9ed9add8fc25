"""What of a job's saves can go: beyond the newest few, left behind by a superseded attempt, or never finished.

Never goes: a save that is protected, the base of the newest attempt, and the newest save that is complete and verified.
What is not certainly dead gets a grace, since its writer may still be at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpufleet.checkpoints.files import StoreFiles
from gpufleet.checkpoints.store import folder_size, well_named
from gpufleet.errors import Invalid
from gpufleet.training.manifest import (
    Base,
    SaveRef,
    Verdict,
    attempt_folder,
    attempts_among,
    base_path,
    choose,
    job_folder,
    judge,
    parse_base,
    saves_of,
)

GRACE: Final = timedelta(hours=1)
"""A guess, on the safe side: several times what a large save takes to an object store."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A save or file that went, and why. `size` is in bytes."""

    path: str
    why: str
    size: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """Everything that went."""

    removed: tuple[Removed, ...]

    @property
    def freed(self) -> int:
        return sum(gone.size for gone in self.removed)


def prune(
    url: str, job: str, *, keep: int, now: datetime, protect: Iterable[SaveRef] = (), grace: timedelta = GRACE
) -> Pruned:
    """Remove what *job* no longer needs, but its newest *keep* complete saves; *protect* names bases in use.

    Running it again removes no more. Raises Temporary or Permanent when the store will not; what went until then
    is gone, and nothing needed was among it.
    """
    if keep < 1 or now.tzinfo is None:
        raise Invalid(f"Pruning keeps at least one save and needs an aware instant; got keep={keep}, now={now}.")
    with well_named():
        files = StoreFiles(url)
        doomed = tuple(_doomed(files, job, keep=keep, spared=set(protect), before=now - grace))
        strays = tuple(_strays(files, job, now - grace))
    for save in doomed:
        files.remove_save(save.path)
    for stray in strays:
        files.remove(stray.path)
    return Pruned(doomed + strays)


def _doomed(files: StoreFiles, job: str, *, keep: int, spared: set[SaveRef], before: datetime) -> Iterator[Removed]:
    verdicts = [judge(files, job, ref, verify=False) for ref in saves_of(files, job)]
    bases = _bases(files, job)
    newest, _ = choose(files, job, below=None, verify=True)
    spared |= {base.base for base in bases[:1] if base.base}
    spared |= {newest.ref} if newest else set()
    in_line = [verdict.ref for verdict in verdicts if verdict.manifest and not _is_orphan(verdict.ref, bases)]
    spared |= set(in_line[:keep])
    for verdict in verdicts:
        if verdict.ref in spared:
            continue
        why = _why_dead(verdict, bases)
        if why and not _are_older(files, _inside(files, verdict.path), before):
            continue
        why = why or f"It is older than the newest {keep} complete saves."
        yield Removed(verdict.path, why, folder_size(files, verdict.path))


def _why_dead(verdict: Verdict, bases: list[Base]) -> str:
    """Empty for a complete save in the line of descent: that one goes by count, not by age."""
    if verdict.manifest is None:
        return verdict.why
    if _is_orphan(verdict.ref, bases):
        return "A later attempt had already chosen what to resume from when it was written."
    return ""


def _is_orphan(ref: SaveRef, bases: list[Base]) -> bool:
    """Whether a later attempt started from something older, or afresh."""
    return any(base.attempt > ref.attempt and (base.base is None or base.base < ref) for base in bases)


def _bases(files: StoreFiles, job: str) -> list[Base]:
    """What each attempt resumed from, newest attempt first.

    A damaged one of the newest attempt stops the pruning, for what it named may be in use; an older one is past.
    """
    bases: list[Base] = []
    attempts = attempts_among(files.names(job_folder(job)))
    for attempt in attempts:
        path = base_path(job, attempt)
        data = files.read(path)
        try:
            bases += [parse_base(data, files.location(path))] if data is not None else []
        except ValueError:
            if attempt == attempts[0]:
                raise
    return bases


def _strays(files: StoreFiles, job: str, before: datetime) -> Iterator[Removed]:
    """Temporary files beside the saves, whose writer was killed before it could rename them."""
    for attempt in attempts_among(files.names(job_folder(job))):
        folder = attempt_folder(job, attempt)
        for entry in files.entries(folder):
            path = f"{folder}/{entry.name}"
            if entry.is_file and entry.name.startswith(".") and _are_older(files, [path], before):
                yield Removed(path, "Its writer was interrupted before it could take its place.", entry.size)


def _inside(files: StoreFiles, folder: str) -> list[str]:
    """The files of a save; the folder itself when it is empty."""
    return [f"{folder}/{name}" for name in files.names(folder)] or [folder]


def _are_older(files: StoreFiles, paths: list[str], before: datetime) -> bool:
    """Whether all of them are; what has no known age is not old."""
    ages = [files.changed_at(path) for path in paths]
    return all(age is not None and age < before for age in ages)
