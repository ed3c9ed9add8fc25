"""Who may do what only one may do, and the counter that lets callers coalesce.

`wanted` counts calls for a tick; the holder of the lease goes on until `done` has reached it. Giving the lease back
and looking at the counter are one statement, so a call that comes in between is never forgotten.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from gpufleet.store import schema as t


def take(connection: Connection, name: str, holder: str, now: datetime, length: timedelta) -> bool:
    """Take or renew the lease; False when someone else holds it."""
    free = or_(t.lease.c.holder.is_(None), t.lease.c.holder == holder, t.lease.c.until < now)
    taken = connection.execute(
        update(t.lease).where(t.lease.c.name == name, free).values(holder=holder, until=now + length)
    )
    if taken.rowcount == 1:
        return True
    if connection.execute(select(t.lease.c.name).where(t.lease.c.name == name)).first():
        return False
    try:
        with connection.begin_nested():
            connection.execute(insert(t.lease).values(name=name, holder=holder, until=now + length))
    except IntegrityError:
        return False  # another process made the row first
    return True


def give_back(connection: Connection, name: str, holder: str) -> None:
    connection.execute(update(t.lease).where(t.lease.c.name == name, t.lease.c.holder == holder).values(holder=None))


def holder(connection: Connection, name: str, now: datetime) -> str | None:
    """Who holds the lease now, or None."""
    row = connection.execute(select(t.lease).where(t.lease.c.name == name)).first()
    return row.holder if row and row.holder and row.until > now else None


def raise_wanted(connection: Connection) -> int:
    """Ask for one more tick; returns the count that must be done before the asker has been served."""
    connection.execute(update(t.fleet).values(wanted=t.fleet.c.wanted + 1))
    return int(connection.execute(select(t.fleet.c.wanted)).scalar_one())


def counters(connection: Connection) -> tuple[int, int]:
    """(wanted, done)."""
    row = connection.execute(select(t.fleet.c.wanted, t.fleet.c.done)).one()
    return row.wanted, row.done


def set_done(connection: Connection, count: int) -> None:
    connection.execute(update(t.fleet).where(t.fleet.c.done < count).values(done=count))


def finish(connection: Connection, name: str, holder: str) -> bool:
    """Give the lease back only if nobody wants more; False means: go on."""
    wanted, done = counters(connection)
    if wanted > done:
        return False
    give_back(connection, name, holder)
    return True


def ensure_fleet(connection: Connection, fleet_id: str) -> None:
    """The one row that names this installation."""
    if connection.execute(select(t.fleet.c.id)).first() is None:
        connection.execute(insert(t.fleet).values(id=fleet_id, revision=0, wanted=0, done=0))


def revision(connection: Connection) -> int:
    """The number that grows with every change a plan depends on."""
    return int(connection.execute(select(t.fleet.c.revision)).scalar_one())


def touch(connection: Connection) -> None:
    """Something a plan depends on changed."""
    connection.execute(update(t.fleet).values(revision=t.fleet.c.revision + 1))


def lock_fleet(connection: Connection) -> int:
    """Take the fleet row for this write transaction and return its revision: guards plan commits on PostgreSQL too."""
    return int(connection.execute(select(t.fleet.c.revision).with_for_update()).scalar_one())
