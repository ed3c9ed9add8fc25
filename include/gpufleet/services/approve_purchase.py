"""Purchases that wait for a person: shown, approved, turned down, and followed until their machines work.

A yes is checked again: the price must be fresh and not higher than shown, the budgets must still allow it, and the job
must still wait. Everything is in the audit table, with who said what.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any, Final

from sqlalchemy import Connection, Row

from gpufleet.errors import Forbidden, Invalid, NotFound
from gpufleet.model.hardware import NodeState
from gpufleet.model.tenancy import Principal
from gpufleet.procurement.guards import hourly_room, instance_room
from gpufleet.procurement.release import JOINS_WITHIN
from gpufleet.services.fleet import Fleet
from gpufleet.services.plan_capacity import PRICE_VALID
from gpufleet.services.rights import is_platform
from gpufleet.services.spending import spent
from gpufleet.store import jobs, ledger, operations, tenancy, verdicts, world

OVER: Final = "superseded"


def waiting_purchases(fleet: Fleet) -> list[dict[str, Any]]:
    """Purchases that wait for a yes, the oldest first: {purchase, told, hourly, total, job, team, why, since}."""
    with fleet.database.read() as connection:
        return [_view(connection, row) for row in _waiting(connection)]


def ask_about(fleet: Fleet, by: str) -> list[dict[str, Any]]:
    """The same, of purchases that nobody was asked about yet, or that `by` itself asked about before: each is asked
    once, whoever asks. What is stale is over first."""
    end_stale_purchases(fleet)
    with fleet.database.write() as connection:
        mine = [row for row in _waiting(connection) if row.args.get("asked_by", by) == by]
        for row in mine:
            operations.ask(connection, row.id, row.args, by)
        return [_view(connection, row) for row in mine]


def end_stale_purchases(fleet: Fleet) -> None:
    """Purchases that waited too long for an answer, or whose job does not wait any more, are over."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        stale = [row for row in _waiting(connection) if _stale(connection, fleet, row, now)]
    if stale:
        with fleet.database.write() as connection:
            for row in stale:
                _end(connection, row, now, _stale(connection, fleet, row, now))


def approve_purchase(fleet: Fleet, name: str, principal: Principal) -> str:
    """Let it be bought; returns its state. The same yes again changes nothing.

    Raises Forbidden for who is not of the platform, NotFound, and Invalid with the reason why it cannot be bought any
    more (then it is over, and planned anew where it is still needed).
    """
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        row = _named(connection, name, principal)
        if row.state != operations.WAITING:
            if row.args.get("turned_down") or row.state == OVER:
                raise Invalid(f"purchase {name} is over: {row.error or 'it was turned down'}.")
            return str(row.state)
        why = _no_more(connection, fleet, row, now)
        if not why:
            operations.answer(connection, row.id, now, state="todo")
            ledger.audit(connection, now, principal.login, "approve", row.args["offering"], row.args["told"])
            return "todo"
        _end(connection, row, now, why)
    raise Invalid(f"purchase {name} cannot be made any more: {why}.")


def turn_down_purchase(fleet: Fleet, name: str, principal: Principal, why: str = "") -> None:
    """Say no: it is over, and one as dear is not asked for again for a day. Raises Forbidden, NotFound, or Invalid when it
    was bought meanwhile."""
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        row = _named(connection, name, principal)
        if row.state == operations.WAITING:
            reason = why or f"turned down by {principal.login}"
            operations.ask(connection, row.id, {**row.args, "turned_down": True}, row.args.get("asked_by", ""))
            operations.answer(connection, row.id, now, state=OVER, error=reason)
            ledger.audit(connection, now, principal.login, "turn-down", row.args["offering"], row.args["told"])
        elif row.state != OVER:
            raise Invalid(f"purchase {name} was approved before; it is {row.state}.")


def purchase_state(fleet: Fleet, name: str) -> dict[str, Any]:
    """How far it is: {state, machines, joined, why}; state is waiting, buying, joining, joined, returned or over."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        row = operations.named(connection, [name]).get(name)
        if row is None:
            raise NotFound(f"there is no purchase '{name}'; 'gpufleet capacity plan' lists them.")
        if row.state != "done":
            state = {operations.WAITING: "waiting", "todo": "buying", "leased": "buying"}.get(row.state, "over")
            return {"state": state, "machines": 0, "joined": 0, "why": row.error}
        machines = [i for i in world.instances(connection) if i.token == row.args["token"]]
        ready = {n.instance for n in world.nodes(connection) if n.state is NodeState.READY}
        joined = sum(i.name in ready for i in machines)
        late = any(now - i.recorded_at >= JOINS_WITHIN for i in machines if i.name not in ready)
    if machines and joined == len(machines):
        return {"state": "joined", "machines": joined, "joined": joined, "why": ""}
    if not machines or late:
        why = "not all its machines joined in time; those that did not are given back"
        return {"state": "returned", "machines": len(machines), "joined": joined, "why": why}
    return {"state": "joining", "machines": len(machines), "joined": joined, "why": ""}


# ------------------------------------------------------------------ checks


def _named(connection: Connection, name: str, principal: Principal) -> Row[Any]:
    if not is_platform(tenancy.teams(connection), principal):
        raise Forbidden(f"{principal.login} is not of the platform; only the platform decides about purchases.")
    row = operations.named(connection, [name]).get(name)
    if row is None or row.kind != "buy":
        raise NotFound(f"there is no purchase '{name}'; 'gpufleet capacity plan' lists them.")
    return row


def _waiting(connection: Connection) -> tuple[Row[Any], ...]:
    return operations.of_kind(connection, "buy", (operations.WAITING,))


def _stale(connection: Connection, fleet: Fleet, row: Row[Any], now: datetime) -> str:
    """Why nobody need be asked any more; nothing where somebody must."""
    job = jobs.get(connection, row.args["job"])
    if job is None or job.state != "pending":
        return f"job {row.args['job']} does not wait any more"
    return "nobody answered in time" if now - row.created_at >= fleet.guards.approval_for else ""


def _no_more(connection: Connection, fleet: Fleet, row: Row[Any], now: datetime) -> str:
    """Why the purchase is not to be made any more; nothing where it is."""
    args = row.args
    if why := _stale(connection, fleet, row, now):
        return why
    offered = next(((o, at) for o, at, _ in world.offerings(connection) if o.name == args["offering"]), None)
    if offered is None or now - offered[1] >= PRICE_VALID:
        return f"{args['offering']} has no fresh price"
    hourly = offered[0].price * args["count"]
    if hourly > Fraction(args["hourly"]):
        return f"{args['offering']} has become dearer"
    return _beyond(connection, fleet, args, hourly, now)


def _beyond(connection: Connection, fleet: Fleet, args: dict[str, Any], hourly: Fraction, now: datetime) -> str:
    """Which bound it would break now."""
    today = spent(connection, now)
    room, more = hourly_room(fleet.guards, today, args["team"]), instance_room(fleet.guards, today)
    there = sum(Fraction(i.price_nano, world.NANO) for i in world.instances(connection))
    if there + hourly > fleet.buying.max_hourly:
        return "all machines together would cost more an hour than buying.max_hourly"
    if room is not None and hourly > room:
        return "the budget of the day is used up"
    if more is not None and args["count"] > more:
        return "there would be more machines than buying.max_instances"
    return ""


def _end(connection: Connection, row: Row[Any], now: datetime, why: str) -> None:
    if operations.answer(connection, row.id, now, state=OVER, error=why):
        ledger.audit(connection, now, "procurement", "give-up", row.args["offering"], f"{row.args['told']}: {why}")


def _view(connection: Connection, row: Row[Any]) -> dict[str, Any]:
    verdict = verdicts.by_job(connection).get(row.args["job"])
    return {
        "purchase": row.name,
        "told": row.args["told"],
        "hourly": f"{float(Fraction(row.args['hourly'])):.2f}",
        "total": f"{float(Fraction(row.args['total'])):.2f}",
        "job": row.args["job"],
        "team": row.args["team"],
        "why": f"{verdict.reason}: {verdict.detail}" if verdict else "",
        "since": row.created_at.isoformat(),
    }
