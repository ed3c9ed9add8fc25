"""Effects as rows: written in the transaction that decided them, leased by whoever carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, exists, func, insert, or_, select, update

from gpufleet.store import schema as t

OPEN = ("todo", "leased")


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
) -> int:
    """Write the effect down; the same name again is the same effect. Returns its id."""
    known = connection.execute(select(t.operation.c.id).where(t.operation.c.name == name)).scalar()
    if known is not None:
        return int(known)
    result = connection.execute(
        insert(t.operation).values(
            kind=kind,
            target=target,
            name=name,
            args=args,
            after=list(after),
            state="todo",
            tries=0,
            created_at=now,
            error="",
            not_before=not_before,
        )
    )
    return int(result.inserted_primary_key[0])  # type: ignore[index]  # an insert of one row has one key


def lease_next(
    connection: Connection, now: datetime, *, token: str, length: timedelta, kinds: tuple[str, ...] = ()
) -> Operation | None:
    """Lease the oldest effect that may run now: nothing older is open on its target, and what it waits for is done."""
    return next(iter(lease_due(connection, now, token=token, length=length, most=1, kinds=kinds)), None)


def lease_due(
    connection: Connection,
    now: datetime,
    *,
    token: str,
    length: timedelta,
    most: int,
    kinds: tuple[str, ...] = (),
) -> tuple[Operation, ...]:
    """Lease the oldest effects that may run now, at most so many, all with one token; each has a target of its own."""
    ready = [row for row in connection.execute(_candidates(now, kinds)) if _ready(connection, row.after)][:most]
    if not ready:
        return ()
    connection.execute(
        update(t.operation)
        .where(t.operation.c.id.in_([row.id for row in ready]), _free(now))
        .values(state="leased", lease_token=token, lease_until=now + length, tries=t.operation.c.tries + 1)
    )
    mine = set(connection.execute(select(t.operation.c.id).where(t.operation.c.lease_token == token)).scalars())
    return tuple(
        Operation(row.id, row.kind, row.target, row.name, row.args, row.tries + 1, row.created_at)
        for row in ready
        if row.id in mine
    )


def _free(now: datetime) -> Any:
    op = t.operation.c
    due = or_(op.not_before.is_(None), op.not_before <= now)
    return or_(and_(op.state == "todo", due), and_(op.state == "leased", op.lease_until < now))


def _candidates(now: datetime, kinds: tuple[str, ...]) -> Any:
    older = t.operation.alias("older")
    op = t.operation.c
    blocked = exists().where(older.c.target == op.target, older.c.id < op.id, older.c.state.in_(OPEN))
    query = select(t.operation).where(_free(now), ~blocked).order_by(op.id).limit(200)
    return query.where(op.kind.in_(kinds)) if kinds else query


def _ready(connection: Connection, after: list[int]) -> bool:
    if not after:
        return True
    open_ = select(t.operation.c.id).where(t.operation.c.id.in_(after), t.operation.c.state.in_(OPEN)).limit(1)
    return connection.execute(open_).first() is None


def failed_before(connection: Connection, operation_id: int) -> str | None:
    """The error of an effect this one waited for, when that one failed."""
    after = connection.execute(select(t.operation.c.after).where(t.operation.c.id == operation_id)).scalar_one()
    if not after:
        return None
    row = connection.execute(
        select(t.operation.c.error).where(t.operation.c.id.in_(after), t.operation.c.state == "failed").limit(1)
    ).first()
    return row.error if row else None


def record(
    connection: Connection, operation_id: int, token: str, now: datetime, *, state: str, error: str = ""
) -> bool:
    """Write the result; False when the lease was lost meanwhile (then someone else's result counts)."""
    done = connection.execute(
        update(t.operation)
        .where(t.operation.c.id == operation_id, t.operation.c.lease_token == token, t.operation.c.state == "leased")
        .values(state=state, error=error, done_at=now, lease_token=None)
    )
    return done.rowcount == 1


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
    return connection.execute(select(t.operation.c.state).where(t.operation.c.name == name)).scalar()


def open_names(connection: Connection, kind: str) -> set[str]:
    """Names of the effects of that kind that are decided and not finished."""
    query = select(t.operation.c.name).where(t.operation.c.kind == kind, t.operation.c.state.in_(OPEN))
    return set(connection.execute(query).scalars())


def any_open(connection: Connection, kind: str) -> bool:
    """Whether an effect of that kind is decided and not finished."""
    query = select(t.operation.c.id).where(t.operation.c.kind == kind, t.operation.c.state.in_(OPEN)).limit(1)
    return connection.execute(query).first() is not None


def count_on(connection: Connection, target: str) -> int:
    """How many effects were ever decided on a target: the next one's number, so it is not taken for an old one."""
    return int(connection.execute(select(func.count()).where(t.operation.c.target == target)).scalar_one())
