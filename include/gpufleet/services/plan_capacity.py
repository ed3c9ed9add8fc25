"""Buys what pending jobs need when nothing else will place them, and gives back what stands idle.

Demand to buy for: jobs past `buy_after` whose reason a purchase could cure; a quota-blocked job never buys.
Machines bought but not ready count as there. One purchase a tick for a job; a spent budget buys nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from sqlalchemy import Connection

from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, Node, NodeState
from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import Snapshot
from gpufleet.model.workload import Job
from gpufleet.procurement.choose import Places, Purchase, allowed, cheapest
from gpufleet.scheduling import run_pass as decide
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import frozen
from gpufleet.store import jobs, ledger, operations, places, verdicts, world
from gpufleet.store.codec import load_node

CURABLE: Final = {
    Reason.NOT_ENOUGH,
    Reason.FRAGMENTED,
    Reason.TOPOLOGY,
    Reason.CAPACITY_TYPE,
    Reason.NO_SUCH_MODEL,
    Reason.MEMORY,
    Reason.HOST_RESOURCES,
    Reason.SHARING,
    Reason.UNHEALTHY,
    Reason.TOO_LARGE,
}
NANO: Final = 1_000_000_000
JOINS_WITHIN: Final = timedelta(minutes=10)
"""A machine that is up and has not joined its cluster by then does not count on any more."""
PRICE_VALID: Final = timedelta(hours=1)
"""An older price buys nothing."""


def plan_capacity(fleet: Fleet) -> None:
    """Decide purchases and releases as operations."""
    if not fleet.clouds:
        return
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        snapshot = frozen(connection, fleet, now)
        # one purchase at a time: what is being bought now is neither a machine yet nor money that was spent
        wanted = [] if operations.any_open(connection, "buy") else _wanted(connection, fleet, now)
        on_sale = [
            (o, not_before) for o, fetched, not_before in world.offerings(connection) if now - fetched < PRICE_VALID
        ]
        room = _room(connection, fleet)
        coming = _coming(connection, snapshot)
    for job in wanted:
        usable = tuple(o for o, not_before in on_sale if allowed(o, job, now, not_before))
        bought = cheapest(job, usable, _what_if(fleet, snapshot, coming, job), room) if usable else None
        if bought is not None and not _placed(fleet, snapshot, coming, job):
            _decide_purchase(fleet, bought, now)
            break  # what was bought changes the next job's question
    _release_idle(fleet, now)


def _wanted(connection: Connection, fleet: Fleet, now: datetime) -> list[Job]:
    reasons = verdicts.by_job(connection)
    return [
        row.job
        for row in jobs.live(connection)
        if row.state == "pending"
        and row.waiting_since is not None
        and now - row.waiting_since >= fleet.buying.buy_after
        and row.job.id in reasons
        and reasons[row.job.id].reason in CURABLE
    ]


def _room(connection: Connection, fleet: Fleet) -> Fraction:
    """What may still be spent per hour."""
    spent = Fraction(sum(i.price_nano for i in world.instances(connection)), NANO)
    return Fraction(fleet.buying.max_hourly) - spent


def _coming(connection: Connection, snapshot: Snapshot) -> tuple[Node, ...]:
    """Nodes that were bought and take no work yet: pending, up but not seen in their cluster, or seen there and not
    ready (a node of Kubernetes is in the cluster seconds before it is)."""
    there = {n.instance for n in snapshot.nodes if n.state is not NodeState.CORDONED}
    offerings = {o.name: o for o, _, _ in world.offerings(connection)}
    return tuple(
        _node(offerings[i.offering], i.name)
        for i in world.instances(connection)
        if i.state in ("pending", "ready")
        and i.name not in there
        and i.offering in offerings
        and snapshot.at - i.recorded_at < JOINS_WITHIN
    )


def _node(offering: Offering, name: str) -> Node:
    """The node an instance of this offering will be, as far as its offering tells."""
    model = gpu_model(offering.model)
    position = tuple(offering.position) or (offering.zone,)
    return Node(
        name=name,
        model=model,
        devices=tuple(map(Device, range(offering.gpus))),
        position=position,
        capacity=offering.capacity,
        link=model.link,
        state=NodeState.READY,
        instance=name,
        provider=offering.cloud,
        region=offering.region,
    )


def _what_if(fleet: Fleet, snapshot: Snapshot, coming: tuple[Node, ...], job: Job) -> Places:
    def placed_with(offering: Offering, count: int) -> bool:
        more = tuple(_node(offering, f"what-if-{n}") for n in range(count))
        return _placed(fleet, snapshot, coming + more, job)

    return placed_with


def _placed(fleet: Fleet, snapshot: Snapshot, more: tuple[Node, ...], job: Job) -> bool:
    """Whether a pass with these nodes, ready, would start the job."""
    expected = {n.instance for n in more}
    nodes = tuple(n for n in snapshot.nodes if n.instance is None or n.instance not in expected) + more
    plan = decide(replace(snapshot, nodes=nodes), fleet.scheduling, snapshot.at)
    return any(p.job == job.id and not p.after for p in plan.placements)


def _decide_purchase(fleet: Fleet, purchase: Purchase, now: datetime) -> None:
    with fleet.database.write() as connection:
        row = jobs.get(connection, purchase.job)
        if row is None or row.state != "pending":
            return
        target = f"buy/{purchase.job}"
        if operations.any_open(connection, "buy"):
            return
        token = f"{fleet.id}-{purchase.job}-{operations.count_on(connection, target) + 1}"
        operations.decide(
            connection,
            now,
            kind="buy",
            target=target,
            name=f"buy/{token}",
            args={
                "cloud": purchase.offering.cloud,
                "offering": purchase.offering.name,
                "count": purchase.count,
                "token": token,
                "job": purchase.job,
            },
        )
        detail = f"{purchase.count} x {purchase.offering.name} at {float(purchase.hourly):.2f}/h for {purchase.job}"
        ledger.audit(connection, now, "procurement", "buy", purchase.offering.name, detail)


# ------------------------------------------------------------------ giving back


def _release_idle(fleet: Fleet, now: datetime) -> None:
    """Bought machines with nothing on them for `idle_for` go back; reserved and owned ones stay."""
    with fleet.database.write() as connection:
        busy = {p.node for pods in places.live_places(connection).values() for p in pods}
        clouds = {i.name: i.cloud for i in world.instances(connection) if i.state == "ready"}
        for row in world.node_rows(connection):
            node = load_node(row.text)
            instance = node.instance
            if (
                instance is None
                or instance not in clouds
                or node.capacity not in (CapacityType.SPOT, CapacityType.ON_DEMAND)
            ):
                continue
            if row.name in busy:
                if row.idle_since is not None:
                    world.set_idle(connection, row.name, None)
            elif row.idle_since is None:
                world.set_idle(connection, row.name, now)
            elif now - row.idle_since >= fleet.buying.idle_for and row.state == NodeState.READY:
                _decide_release(connection, clouds[instance], instance, row.name, now)


def _decide_release(connection: Connection, cloud: str, instance: str, node: str, now: datetime) -> None:
    operations.decide(
        connection,
        now,
        kind="release",
        target=f"instance/{instance}",
        name=f"release/{instance}",
        args={"cloud": cloud, "instance": instance},
    )
    ledger.audit(connection, now, "procurement", "release", instance, f"{node} stood idle")
