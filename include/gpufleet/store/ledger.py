"""Use and money as they were written down: usage events, days, statement lines, audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from gpufleet.store import schema as t

AT_ONCE: Final = 500


def add_usage(
    connection: Connection, *, id: str, at: datetime, event: str, node: str, recorded_at: datetime, **rest: Any
) -> bool:
    """Write an event once; the same id again is the same event. True when it was new."""
    if connection.execute(select(t.usage_event.c.id).where(t.usage_event.c.id == id)).first():
        return False
    facts = rest.pop("facts", {})
    connection.execute(
        insert(t.usage_event).values(id=id, at=at, event=event, node=node, recorded_at=recorded_at, facts=facts, **rest)
    )
    return True


def add_all_usage(connection: Connection, events: Sequence[dict[str, Any]]) -> None:
    """Write many events, each once: the columns of the table, `id` among them."""
    known: set[str] = set()
    ids = [event["id"] for event in events]
    for start in range(0, len(ids), AT_ONCE):
        query = select(t.usage_event.c.id).where(t.usage_event.c.id.in_(ids[start : start + AT_ONCE]))
        known.update(connection.execute(query).scalars())
    fresh = {event["id"]: event for event in events if event["id"] not in known}
    if fresh:
        connection.execute(insert(t.usage_event), list(fresh.values()))


def usage_until(connection: Connection, until: datetime) -> tuple[Row[Any], ...]:
    """Every event before `until`, in order of time."""
    u = t.usage_event.c
    return tuple(connection.execute(select(t.usage_event).where(u.at < until).order_by(u.at, u.id)))


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


def statement(connection: Connection, day: str) -> tuple[Row[Any], ...]:
    s = t.statement_line
    return tuple(connection.execute(select(s).where(s.c.day == day).order_by(s.c.team, s.c.project)))


def audit(connection: Connection, now: datetime, who: str, action: str, target: str, detail: str = "") -> None:
    connection.execute(insert(t.audit).values(at=now, who=who, action=action, target=target, detail=detail))
