"""Use and money as they were written down: usage events, days, statement lines, audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, case, delete, func, insert, or_, select, update

from gpufleet.store import schema as t
from gpufleet.store.chunks import chunks


def add_usage(
    connection: Connection, *, id: str, at: datetime, event: str, node: str, recorded_at: datetime, **rest: Any
) -> bool:
    """Write an event once; the same id again is the same event. True when it was new."""
    return add_usages(connection, [{"id": id, "at": at, "event": event, "node": node, **rest}], recorded_at) == 1


NOBODY: Final[dict[str, Any]] = {"job": None, "attempt": None, "gpu": None, "team": None, "project": None, "facts": {}}
"""Columns that only some events fill."""


def add_usages(connection: Connection, events: Sequence[dict[str, Any]], recorded_at: datetime) -> int:
    """Write those that are new; returns how many were. Of each at least `id`, `at`, `event` and `node`."""
    u = t.usage_event
    known = {
        id
        for some in chunks(e["id"] for e in events)
        for id in connection.execute(select(u.c.id).where(u.c.id.in_(some))).scalars()
    }
    new = [NOBODY | e | {"recorded_at": recorded_at} for e in events if e["id"] not in known]
    if new:
        connection.execute(insert(u), new)
    return len(new)


def heard_since(connection: Connection, since: datetime, before: datetime) -> bool:
    """Whether an event from before that instant was written down since then."""
    u = t.usage_event.c
    return connection.execute(select(u.id).where(u.recorded_at >= since, u.at < before).limit(1)).first() is not None


def first_day(connection: Connection) -> str:
    """The UTC day of the earliest event; of an empty ledger a day later than any."""
    first = connection.execute(select(func.min(t.usage_event.c.at))).scalar()
    return "9999-12-31" if first is None else first.date().isoformat()


def told_teams(connection: Connection) -> frozenset[str]:
    """Every team that ever used something."""
    team = t.usage_event.c.team
    return frozenset(connection.execute(select(team).where(team.is_not(None)).distinct()).scalars())


def told_nodes(connection: Connection) -> frozenset[str]:
    """Every node that was ever heard of."""
    return frozenset(connection.execute(select(t.usage_event.c.node).distinct()).scalars())


def usage_by_node(connection: Connection, since: datetime) -> Iterator[list[Row[Any]]]:
    """Every event of each node that was not gone for good before then, all those of a node together, streamed."""
    yield from _by_node(connection, t.usage_event.c.node.not_in(_past(since)))


def usage_of_past_nodes(connection: Connection, since: datetime, jobs: Iterable[str]) -> Iterator[list[Row[Any]]]:
    """Every event of those nodes that were gone before then and where one of these jobs ever was."""
    u = t.usage_event.c
    nodes: set[str] = set()
    for some in chunks(jobs):
        there = select(u.node).where(u.job.in_(some), u.event == "allocated", u.node.in_(_past(since)))
        nodes.update(connection.execute(there.distinct()).scalars())
    for names in chunks(sorted(nodes)):
        yield from _by_node(connection, u.node.in_(names))


def _past(since: datetime) -> Select[Any]:
    """Nodes of which the last thing heard is that they went down, before then; nothing else at that very instant."""
    u = t.usage_event.c
    down = func.max(case((u.event == "node-down", u.at)))
    other = func.max(case((u.event != "node-down", u.at)))
    return select(u.node).group_by(u.node).having(down <= since, or_(other.is_(None), other < down))


def _by_node(connection: Connection, which: ColumnElement[bool]) -> Iterator[list[Row[Any]]]:
    asked = select(t.usage_event).where(which).order_by(t.usage_event.c.node)
    rows = connection.execute(asked, execution_options={"yield_per": 2000})
    for _, mine in groupby(rows, key=lambda row: row.node):
        yield list(mine)


def usage_of_job(connection: Connection, job: str) -> tuple[Row[Any], ...]:
    """Its events in the order of time."""
    u = t.usage_event.c
    return tuple(connection.execute(select(t.usage_event).where(u.job == job).order_by(u.at, u.id)))


def last_instant(connection: Connection) -> datetime | None:
    """Of the latest event; None for an empty ledger."""
    return connection.execute(select(func.max(t.usage_event.c.at))).scalar()


def ledger_revision(connection: Connection) -> int:
    """How many events there are: the same number means the same bill."""
    return int(connection.execute(select(func.count()).select_from(t.usage_event)).scalar_one())


def put_rates(connection: Connection, rates: dict[str, Any], now: datetime) -> None:
    connection.execute(delete(t.rate))
    connection.execute(insert(t.rate).values(id=1, applied_at=now, rates=rates))


def rates(connection: Connection) -> dict[str, Any]:
    value = connection.execute(select(t.rate.c.rates)).scalar()
    return dict(value) if value else {}


def put_day(connection: Connection, day: str, lines: list[dict[str, Any]], **values: Any) -> None:
    """Replace a day's statement."""
    connection.execute(delete(t.statement_line).where(t.statement_line.c.day == day))
    if connection.execute(update(t.day_status).where(t.day_status.c.day == day).values(**values)).rowcount == 0:
        connection.execute(insert(t.day_status).values(day=day, **values))
    if lines:
        connection.execute(insert(t.statement_line), [{"day": day, **line} for line in lines])


def day(connection: Connection, day: str) -> Row[Any] | None:
    return connection.execute(select(t.day_status).where(t.day_status.c.day == day)).first()


def days(connection: Connection, limit: int = 31) -> tuple[Row[Any], ...]:
    return tuple(connection.execute(select(t.day_status).order_by(t.day_status.c.day.desc()).limit(limit)))


def days_between(connection: Connection, first: str, last: str) -> tuple[Row[Any], ...]:
    """The settled days of [first, last), in order."""
    d = t.day_status.c.day
    return tuple(connection.execute(select(t.day_status).where(d >= first, d < last).order_by(d)))


def statement(connection: Connection, day: str) -> tuple[Row[Any], ...]:
    s = t.statement_line
    return tuple(connection.execute(select(s).where(s.c.day == day).order_by(s.c.team, s.c.project)))


def audit(connection: Connection, now: datetime, who: str, action: str, target: str, detail: str = "") -> None:
    connection.execute(insert(t.audit).values(at=now, who=who, action=action, target=target, detail=detail))
