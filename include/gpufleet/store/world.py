"""What was last seen of clusters and clouds: nodes, offerings, instances, interruptions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, Text, bindparam, cast, delete, insert, select, update

from gpufleet.model.capacity import Instance, InterruptionNotice, Offering
from gpufleet.model.hardware import Node
from gpufleet.store import schema as t
from gpufleet.store.codec import dump_node, dump_offering, load_node, load_offering

NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """When a cluster was last seen, by our clock and by its own."""

    name: str
    levels: tuple[str, ...]
    observed_at: datetime
    cluster_time: datetime


def put_cluster(
    connection: Connection, name: str, levels: tuple[str, ...], observed_at: datetime, cluster_time: datetime
) -> None:
    values = {"levels": list(levels), "observed_at": observed_at, "cluster_time": cluster_time}
    if connection.execute(update(t.cluster).where(t.cluster.c.name == name).values(**values)).rowcount == 0:
        connection.execute(insert(t.cluster).values(name=name, **values))


def clusters(connection: Connection) -> dict[str, ClusterRow]:
    rows = connection.execute(select(t.cluster))
    return {r.name: ClusterRow(r.name, tuple(r.levels), r.observed_at, r.cluster_time) for r in rows}


def put_nodes(connection: Connection, cluster: str, nodes: Iterable[Node], now: datetime) -> bool:
    """Make the table say what was seen; True when something a plan depends on differs."""
    known = nodes_of(connection, cluster)
    seen = {node.name: node for node in nodes}
    gone = known.keys() - seen.keys()
    new = [node for node in seen.values() if node.name not in known]
    other = [node for node in seen.values() if node.name in known and known[node.name] != node]
    if gone:
        connection.execute(delete(t.node).where(t.node.c.name.in_(gone)))
    connection.execute(update(t.node).where(t.node.c.cluster == cluster).values(last_seen=now))
    if new:
        first = {"cluster": cluster, "first_seen": now, "last_seen": now}
        connection.execute(insert(t.node), [{**_facts(node), "name": node.name, **first} for node in new])
    if other:
        change = update(t.node).where(t.node.c.name == bindparam("of"))
        connection.execute(change, [{**_facts(node), "of": node.name} for node in other])
    return bool(gone or new or other)


def _facts(node: Node) -> dict[str, Any]:
    return {"state": node.state.value, "facts": dump_node(node)}


_TEXT: Final = cast(t.node.c.facts, Text).label("text")


def nodes(connection: Connection) -> tuple[Node, ...]:
    """Every node, by name."""
    return tuple(load_node(r.text) for r in connection.execute(select(_TEXT).order_by(t.node.c.name)))


def nodes_of(connection: Connection, cluster: str) -> dict[str, Node]:
    """A cluster's nodes as they were last seen, by name."""
    found = connection.execute(select(_TEXT).where(t.node.c.cluster == cluster))
    return {node.name: node for node in (load_node(r.text) for r in found)}


def node_rows(connection: Connection) -> tuple[Row[Any], ...]:
    """Every row, by name; the facts as `text`, for `load_node`."""
    columns = [c for c in t.node.c if c.name != "facts"]
    return tuple(connection.execute(select(*columns, _TEXT).order_by(t.node.c.name)))


def set_idle(connection: Connection, node: str, since: datetime | None) -> None:
    connection.execute(update(t.node).where(t.node.c.name == node).values(idle_since=since))


def put_offerings(connection: Connection, cloud: str, offerings: Iterable[Offering], now: datetime) -> None:
    """Today's offerings of one cloud; what it sells no more is dropped, a back-off is kept."""
    known = set(connection.execute(select(t.offering.c.name).where(t.offering.c.cloud == cloud)).scalars())
    for offering in offerings:
        values = {"facts": dump_offering(offering), "price_nano": int(offering.price * NANO), "fetched_at": now}
        if offering.name in known:
            connection.execute(update(t.offering).where(t.offering.c.name == offering.name).values(**values))
        else:
            connection.execute(insert(t.offering).values(name=offering.name, cloud=cloud, **values))
        known.discard(offering.name)
    if known:
        connection.execute(delete(t.offering).where(t.offering.c.name.in_(known)))


def offerings(connection: Connection) -> tuple[tuple[Offering, datetime, datetime | None], ...]:
    """(offering, fetched at, not before) for everything on sale, by name."""
    rows = connection.execute(select(t.offering).order_by(t.offering.c.name))
    return tuple((load_offering(r.facts), r.fetched_at, r.not_before) for r in rows)


def avoid_offering(connection: Connection, name: str, until: datetime) -> None:
    """It had none, or just took a machine back: not before then."""
    connection.execute(update(t.offering).where(t.offering.c.name == name).values(not_before=until))


def put_instances(connection: Connection, cloud: str, instances: Iterable[Instance], now: datetime) -> None:
    """What the cloud says it runs for us."""
    prices = {r.name: r.price_nano for r in connection.execute(select(t.offering.c.name, t.offering.c.price_nano))}
    for i in instances:
        ended = now if i.state == "terminated" else None
        known = connection.execute(select(t.instance).where(t.instance.c.name == i.name)).first()
        if known is None:
            connection.execute(
                insert(t.instance).values(
                    name=i.name,
                    cloud=cloud,
                    offering=i.offering,
                    token=i.token,
                    state=i.state,
                    price_nano=prices.get(i.offering, 0),
                    launched_at=i.launched_at,
                    recorded_at=now,
                    ended_at=ended,
                )
            )
        elif known.state != i.state:
            connection.execute(
                update(t.instance).where(t.instance.c.name == i.name).values(state=i.state, ended_at=ended)
            )


def instances(connection: Connection) -> tuple[Row[Any], ...]:
    """Every instance that has not ended, by name."""
    return tuple(
        connection.execute(select(t.instance).where(t.instance.c.state != "terminated").order_by(t.instance.c.name))
    )


def instances_since(connection: Connection, since: datetime) -> tuple[Row[Any], ...]:
    """Every instance that was there at any time after `since`, by name."""
    i = t.instance.c
    there = (i.ended_at.is_(None)) | (i.ended_at > since)
    return tuple(connection.execute(select(t.instance).where(there).order_by(i.name)))


def end_instance(connection: Connection, name: str, now: datetime) -> None:
    """Its cloud does not show it any more."""
    connection.execute(update(t.instance).where(t.instance.c.name == name).values(state="terminated", ended_at=now))


def hear(connection: Connection, notice: InterruptionNotice, now: datetime) -> bool:
    """Write a notice down once; True when it is new."""
    if connection.execute(select(t.interruption.c.id).where(t.interruption.c.id == notice.id)).first():
        return False
    connection.execute(
        insert(t.interruption).values(
            id=notice.id,
            instance=notice.instance,
            node=notice.node,
            kind=notice.kind,
            noticed_at=notice.at,
            deadline=notice.deadline,
            heard_at=now,
        )
    )
    return True


def open_interruptions(connection: Connection) -> tuple[str, ...]:
    """Ids of notices that are not over, oldest first."""
    n = t.interruption.c
    return tuple(connection.execute(select(n.id).where(n.resumed_at.is_(None)).order_by(n.heard_at, n.id)).scalars())


def interruption(connection: Connection, notice: str) -> Row[Any] | None:
    return connection.execute(select(t.interruption).where(t.interruption.c.id == notice)).first()


def note_resumed(connection: Connection, notice: str, now: datetime) -> None:
    """Everyone it struck runs again, or has ended."""
    connection.execute(update(t.interruption).where(t.interruption.c.id == notice).values(resumed_at=now))


def taken_back(connection: Connection, since: datetime) -> set[str]:
    """Instances that their cloud takes back, by notices whose deadline is not before `since`."""
    i = t.interruption.c
    return set(connection.execute(select(i.instance).where(i.kind == "spot", i.deadline >= since)).scalars())


def shortest_notice(connection: Connection, since: datetime) -> timedelta:
    """The least time that a cloud has left between its notice and the end; none where it gave no notice lately."""
    i = t.interruption.c
    told = connection.execute(select(i.noticed_at, i.deadline).where(i.kind == "spot", i.deadline >= since))
    return min((max(timedelta(0), row.deadline - row.noticed_at) for row in told), default=timedelta(0))


def interruptions(connection: Connection, limit: int = 50) -> tuple[Row[Any], ...]:
    """The newest notices first."""
    return tuple(connection.execute(select(t.interruption).order_by(t.interruption.c.heard_at.desc()).limit(limit)))
