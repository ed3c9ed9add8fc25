"""The GPU memory that attempts were seen to use: one row each, which only grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, or_, select, update

from gpufleet.model.workload import Job, Workload
from gpufleet.placement.memory import Measured, MemoryPoint
from gpufleet.store import jobs
from gpufleet.store import schema as t
from gpufleet.store.chunks import chunks

MOST_MIB = 2**53
"""More than any GPU has; a larger number is damage."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most one attempt used on its worst GPU, in MiB: as its cluster saw it, as its framework said (None: not said).

    `killed`: it was ended for memory. `settled`: it ran long enough, or to its end, to have shown its peak.
    """

    device_mib: int | None = None
    allocator_mib: int | None = None
    killed: bool = False
    settled: bool = False

    def with_more(self, other: Peak) -> Peak:
        return Peak(
            _larger(self.device_mib, other.device_mib),
            _larger(self.allocator_mib, other.allocator_mib),
            self.killed or other.killed,
            self.settled or other.settled,
        )

    @property
    def is_news(self) -> bool:
        return self.device_mib is not None or self.allocator_mib is not None

    def point(self, workload: Workload, source: str = "") -> MemoryPoint | None:
        """The larger of the two, by what the device held; None where neither was said.

        A cluster looks now and then and may miss a short peak that the allocator counted.
        """
        said = [
            MemoryPoint(workload, mib, measured, self.killed, source)
            for mib, measured in ((self.device_mib, Measured.DEVICE), (self.allocator_mib, Measured.ALLOCATOR))
            if mib
        ]
        return max(said, key=lambda p: p.held_mib, default=None)


def _larger(one: int | None, other: int | None) -> int | None:
    said = [mib for mib in (one, other) if mib is not None and 0 < mib <= MOST_MIB]
    return max(said, default=None)


def note_all(connection: Connection, seen: Mapping[tuple[str, int], Peak], now: datetime) -> None:
    """Add what was seen of (job, attempt)s; nothing is written where that is nothing new."""
    told = {key: peak for key, peak in seen.items() if peak != Peak()}
    known = _known(connection, {job for job, _ in told})
    for key, peak in told.items():
        before = known.get(key, Peak())
        after = before.with_more(peak)
        if after.is_news and after != before:
            _write(connection, key, after, now, is_new=key not in known)


def _known(connection: Connection, of: Iterable[str]) -> dict[tuple[str, int], Peak]:
    m = t.memory_peak
    return {
        (row.job, row.attempt): _peak(row)
        for some in chunks(of)
        for row in connection.execute(select(m).where(m.c.job.in_(some)))
    }


def _write(connection: Connection, key: tuple[str, int], peak: Peak, now: datetime, *, is_new: bool) -> None:
    job, attempt = key
    values = {
        "device_mib": peak.device_mib,
        "allocator_mib": peak.allocator_mib,
        "killed": peak.killed,
        "settled": peak.settled,
        "at": now,
    }
    m = t.memory_peak
    if not is_new:
        connection.execute(update(m).where(m.c.job == job, m.c.attempt == attempt).values(**values))
    elif known_job := jobs.get(connection, job):
        _first(connection, known_job.job, attempt, values)


def _first(connection: Connection, job: Job, attempt: int, values: dict[str, Any]) -> None:
    ran = job.workload
    what = {"workload": ran.name, "batch": ran.batch, "sequence": ran.sequence} if ran else {}
    connection.execute(insert(t.memory_peak).values(job=job.id, attempt=attempt, team=job.team, **what, **values))


def _peak(row: Row[Any]) -> Peak:
    return Peak(row.device_mib, row.allocator_mib, row.killed, row.settled)


def points(connection: Connection, workload: str, team: str) -> tuple[MemoryPoint, ...]:
    """The runs that tell of a workload: the team's own, or all teams' where it has none that ran whole.

    Attempts that were neither killed nor ran long enough tell nothing: their peak may have been still to come.
    """
    m = t.memory_peak
    query = select(m).where(m.c.workload == workload, or_(m.c.settled, m.c.killed)).order_by(m.c.at, m.c.job)
    rows = connection.execute(query).all()
    own = [r for r in rows if r.team == team]
    found = own if any(not r.killed for r in own) else rows
    said = (_peak(r).point(Workload(r.workload, r.batch, r.sequence), f"{r.job}/{r.attempt}") for r in found)
    return tuple(p for p in said if p is not None)


def peaks(connection: Connection, of: Iterable[str]) -> dict[str, Peak]:
    """Each job's largest over its attempts; jobs without any are absent."""
    m = t.memory_peak
    found: dict[str, Peak] = defaultdict(Peak)
    for row in connection.execute(select(m).where(m.c.job.in_(tuple(of))).order_by(m.c.attempt)):
        # a later attempt may have been given more: what killed an earlier one is not held against it once it ran whole
        before = found[row.job] if not row.settled or row.killed else replace(found[row.job], killed=False)
        found[row.job] = before.with_more(_peak(row))
    return dict(found)
