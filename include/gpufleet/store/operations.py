"""Effects as rows: written in the transaction that decided them, leased by whoever carries them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, and_, exists, func, insert, or_, select, update

from gpufleet.store import schema as t
from gpufleet.store.chunks import chunks

OPEN = ("todo", "leased")
WAITING = "waiting"
"""For a person's yes: nobody carries it out before."""
DRY = "dry-run"
"""Only written down: nobody ever carries it out."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One effect. `name` is its deterministic external name or client token."""

    id: int
    kind: str
    target: str
    name: str
    args: dict[str, Any]
    tries: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Wanted:
    """An effect to write down. `after` are ids of effects that must be done first."""

    kind: str
    target: str
    name: str
    args: dict[str, Any]
    after: tuple[int, ...] = ()
    not_before: datetime | None = None
    state: str = "todo"


def decide(
    connection: Connection,
    now: datetime,
    *,
    kind: str,
    target: str,
    name: str,
    args: dict[str, Any],
    after: tuple[int, ...] = (),
    not_before: datetime | None = None,
    state: str = "todo",
) -> int:
    """Write the effect down; the same name again is the same effect. Returns its id."""
    return decide_all(connection, now, [Wanted(kind, target, name, args, after, not_before, state)])[name]


def decide_all(connection: Connection, now: datetime, wanted: Sequence[Wanted]) -> dict[str, int]:
    """The same for many: by name the id."""
    known = _ids(connection, [w.name for w in wanted])
    new = {w.name: w for w in wanted if w.name not in known}  # the same name twice is one effect
    if not new:
        return known
    begun = {"tries": 0, "created_at": now, "error": ""}
    rows = [
        {"kind": w.kind, "target": w.target, "name": w.name, "args": w.args, "after": list(w.after)}
        | {"not_before": w.not_before, "state": w.state}
        | begun
        for w in new.values()
    ]
    connection.execute(insert(t.operation), rows)
    return known | _ids(connection, new)


def _ids(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    op = t.operation.c
    return {
        row.name: row.id
        for some in chunks(names)
        for row in connection.execute(select(op.id, op.name).where(op.name.in_(some)))
    }


def lease(connection: Connection, now: datetime, *, token: str, length: timedelta, most: int) -> list[Operation]:
    """Lease the oldest effects that may run now: nothing older is open on their target, what they wait for is done."""
    ready = (row for row in connection.execute(_candidates(now, most)).all() if _ready(connection, row.after))
    rows = list(islice(ready, most))
    free = {row.id for row in rows}
    for some in chunks(row.id for row in rows):
        taken = connection.execute(
            update(t.operation)
            .where(t.operation.c.id.in_(some), _free(now))
            .values(state="leased", lease_token=token, lease_until=now + length, tries=t.operation.c.tries + 1)
        )
        if taken.rowcount != len(some):  # somebody else was quicker with one of them
            mine = select(t.operation.c.id).where(t.operation.c.id.in_(some), t.operation.c.lease_token == token)
            free -= set(some) - set(connection.execute(mine).scalars())
    return [
        Operation(row.id, row.kind, row.target, row.name, row.args, row.tries + 1, row.created_at)
        for row in rows
        if row.id in free
    ]


def _free(now: datetime) -> Any:
    op = t.operation.c
    due = or_(op.not_before.is_(None), op.not_before <= now)
    return or_(and_(op.state == "todo", due), and_(op.state == "leased", op.lease_until < now))


def _candidates(now: datetime, most: int) -> Any:
    """More than are asked for, since some may wait for others."""
    older = t.operation.alias("older")
    op = t.operation.c
    blocked = exists().where(older.c.target == op.target, older.c.id < op.id, older.c.state.in_(OPEN))
    return select(t.operation).where(_free(now), ~blocked).order_by(op.id).limit(most + 200)


def _ready(connection: Connection, after: list[int]) -> bool:
    if not after:
        return True
    open_ = select(t.operation.c.id).where(t.operation.c.id.in_(after), t.operation.c.state.in_(OPEN)).limit(1)
    return connection.execute(open_).first() is None


def failed_before(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """By effect the error of one it waited for, where that one failed."""
    op = t.operation.c
    waited: dict[int, list[int]] = {
        row.id: row.after
        for some in chunks(ids)
        for row in connection.execute(select(op.id, op.after).where(op.id.in_(some)))
        if row.after
    }
    errors: dict[int, str] = {
        row.id: row.error
        for some in chunks({one for after in waited.values() for one in after})
        for row in connection.execute(select(op.id, op.error).where(op.id.in_(some), op.state == "failed"))
    }
    return {id: errors[one] for id, after in waited.items() for one in after if one in errors}


def record(
    connection: Connection, operation_id: int, token: str, now: datetime, *, state: str, error: str = ""
) -> bool:
    """Write the result; False when the lease was lost meanwhile (then someone else's result counts)."""
    op = t.operation.c
    done = connection.execute(
        update(t.operation)
        .where(op.id == operation_id, op.lease_token == token, op.state == "leased")
        .values(state=state, error=error, done_at=now, lease_token=None)
    )
    return done.rowcount == 1


def record_all(connection: Connection, ids: Iterable[int], token: str, now: datetime, *, state: str) -> None:
    """The same result for many; those whose lease was lost meanwhile are left alone."""
    op = t.operation.c
    for some in chunks(ids):
        connection.execute(
            update(t.operation)
            .where(op.id.in_(some), op.lease_token == token, op.state == "leased")
            .values(state=state, error="", done_at=now, lease_token=None)
        )


def postpone(connection: Connection, operation_id: int, token: str, until: datetime, error: str) -> None:
    """Try again later."""
    connection.execute(
        update(t.operation)
        .where(t.operation.c.id == operation_id, t.operation.c.lease_token == token)
        .values(state="todo", not_before=until, error=error, lease_token=None)
    )


def supersede(connection: Connection, target: str, kinds: tuple[str, ...], now: datetime) -> int:
    """Drop effects on a target that have not begun; one that has begun is left to finish. Returns how many."""
    dropped = connection.execute(
        update(t.operation)
        .where(
            t.operation.c.target == target,
            t.operation.c.kind.in_(kinds),
            t.operation.c.state == "todo",
            t.operation.c.tries == 0,
        )
        .values(state="superseded", done_at=now)
    )
    return dropped.rowcount


def state_of(connection: Connection, name: str) -> str | None:
    """todo, leased, done, failed or superseded; None for an effect never decided."""
    return states_of(connection, [name]).get(name)


def states_of(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """By name, of those that were decided."""
    op = t.operation.c
    return {
        row.name: row.state
        for some in chunks(names)
        for row in connection.execute(select(op.name, op.state).where(op.name.in_(some)))
    }


def any_open(connection: Connection, kind: str) -> bool:
    """Whether an effect of that kind is decided and not finished."""
    query = select(t.operation.c.id).where(t.operation.c.kind == kind, t.operation.c.state.in_(OPEN)).limit(1)
    return connection.execute(query).first() is not None


def last_on(connection: Connection, target: str) -> dict[str, Any] | None:
    """The arguments of the newest effect on a target."""
    o = t.operation.c
    return connection.execute(select(o.args).where(o.target == target).order_by(o.id.desc()).limit(1)).scalar()


def count_on(connection: Connection, target: str) -> int:
    """How many effects were ever decided on a target: the next one's number, so it is not taken for an old one."""
    return int(connection.execute(select(func.count()).where(t.operation.c.target == target)).scalar_one())


# ------------------------------------------------------------------ a person's yes


def of_kind(connection: Connection, kind: str, states: Sequence[str]) -> tuple[Row[Any], ...]:
    """Every effect of a kind in one of these states, the oldest first."""
    op = t.operation.c
    return tuple(
        connection.execute(select(t.operation).where(op.kind == kind, op.state.in_(states)).order_by(op.id)).all()
    )


def named(connection: Connection, names: Iterable[str]) -> dict[str, Row[Any]]:
    """By name, of those that were decided."""
    op = t.operation.c
    return {
        row.name: row
        for some in chunks(names)
        for row in connection.execute(select(t.operation).where(op.name.in_(some)))
    }


def newest_on(connection: Connection, target: str) -> Row[Any] | None:
    """The effect that was decided last on a target."""
    op = t.operation.c
    query = select(t.operation).where(op.target == target).order_by(op.id.desc()).limit(1)
    return connection.execute(query).first()


def answer(connection: Connection, operation_id: int, now: datetime, *, state: str, error: str = "") -> bool:
    """A waiting effect becomes `todo`, or is over; False when somebody else was quicker."""
    op = t.operation.c
    over = None if state in OPEN else now
    done = connection.execute(
        update(t.operation)
        .where(op.id == operation_id, op.state == WAITING)
        .values(state=state, error=error, done_at=over)
    )
    return done.rowcount == 1


def ask(connection: Connection, operation_id: int, args: dict[str, Any], by: str) -> None:
    """Note who asks a person about a waiting effect."""
    op = t.operation.c
    change = update(t.operation).where(op.id == operation_id, op.state == WAITING)
    connection.execute(change.values(args={**args, "asked_by": by}))
