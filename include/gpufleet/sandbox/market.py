"""The small cloud: it sells machines, takes spot ones back after a notice, and gives up what it no longer has."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from gpufleet.errors import Invalid, NoCapacity, NotFound, Refused
from gpufleet.sandbox import events
from gpufleet.sandbox.gangs import change_pods, doom_node
from gpufleet.sandbox.machines import end_instance, lose, machine_of
from gpufleet.sandbox.records import Bought, Condition, InstanceState, Machine, Notice, Pod, Stock
from gpufleet.sandbox.site import Site

LOST_IS_SHOWN_FOR: Final = timedelta(seconds=2)
"""An instance's node is seen as lost for so long, then it is no longer there."""
RETENTION: Final = timedelta(hours=1)
"""Real time for which a terminated instance, and its notice, are still told of."""


def launch(site: Site, offering: str, count: int, token: str) -> tuple[Bought, ...]:
    """All or none. The same token finds what it bought before, whatever became of it since."""
    if count < 1 or not token:
        raise Invalid(f"A launch needs a token and a count of at least 1; got '{token}' and {count}.")
    if known := _bought_with(site, token):
        if {bought.offering for bought in known} != {offering} or len(known) != count:
            raise Refused(f"Token {token} bought {len(known)} of {known[0].offering} before and buys nothing else.")
        return known
    stock = _stock(site, offering)
    if stock.available < count:
        raise NoCapacity(f"Offering {offering} has {stock.available} machines left; {count} were asked for.")
    site.book.stock.put(replace(stock, available=stock.available - count))
    for name in _names(token, count):
        site.book.instances.put(_buy(site, stock, name, token))
    events.say("cloud-launch", offering=offering, count=count)
    return _bought_with(site, token)


def _names(token: str, count: int) -> list[str]:
    """Deterministic, so that a launch repeated after a crash asks for the same machines."""
    digest = sha256(token.encode()).hexdigest()[:8]
    return [f"i-{digest}-{number}" for number in range(count)]


def _buy(site: Site, stock: Stock, name: str, token: str) -> Bought:
    capacity, ready_at = stock.machine.capacity, site.now() + stock.launch_delay
    return Bought(name, stock.name, token, stock.zone, capacity, InstanceState.PENDING, site.ledger_now(), ready_at)


def _bought_with(site: Site, token: str) -> tuple[Bought, ...]:
    found = [bought for bought in site.book.instances.values() if bought.token == token]
    return tuple(sorted(found, key=lambda bought: int(bought.name.rpartition("-")[2])))


def _stock(site: Site, offering: str) -> Stock:
    if offering not in site.book.stock:
        raise NotFound(f"The cloud does not sell an offering {offering}.")
    return site.book.stock[offering]


def set_available(site: Site, offering: str, available: int) -> None:
    if available < 0:
        raise Invalid(f"{available} machines of {offering} cannot be available.")
    site.book.stock.put(replace(_stock(site, offering), available=available))


def instances(site: Site) -> list[Bought]:
    """All of them, terminated ones for an hour after their end."""
    shown = [bought for bought in site.book.instances.values() if _is_remembered(bought, site.now())]
    return sorted(shown, key=lambda bought: bought.name)


def notices(site: Site) -> list[Notice]:
    """All of them, until an hour after the machine's end."""
    book, now = site.book, site.now()
    return sorted(
        (notice for notice in book.notices.values() if _is_remembered(book.instances[notice.node], now)),
        key=lambda notice: notice.id,
    )


def _is_remembered(bought: Bought, now: datetime) -> bool:
    return bought.ended_at is None or now - bought.ended_at <= RETENTION


def terminate(site: Site, name: str) -> None:
    """Give a machine back to the cloud, which can sell it again. One that is gone, or was never there, is done."""
    bought = site.book.instances.get(name)
    if bought is None or bought.state is InstanceState.TERMINATED:
        return
    end_instance(site, name)
    stock = site.book.stock[bought.offering]
    site.book.stock.put(replace(stock, available=stock.available + 1))
    if name in site.book.machines:
        site.book.machines.put(replace(site.book.machines[name], condition=Condition.GONE))
        doom_node(site, name)
    events.say("cloud-terminate", instance=name)


def reclaim(site: Site, node: str, notice: timedelta | None = None, *, then_unavailable: bool = False) -> Notice:
    """The cloud's notice: the pods are told at once, at the deadline the machine goes. A second one changes nothing."""
    machine = machine_of(site, node)
    if machine.offering is None:
        raise Refused(f"Node {node} is no instance of the cloud: nobody can reclaim it.")
    if then_unavailable:
        set_available(site, machine.offering, 0)
    if node in site.book.notices:
        return site.book.notices[node]
    if machine.condition is not Condition.READY:
        raise Refused(f"Node {node} is {machine.state} already.")
    now = site.now()
    found = Notice(node, node, now, now + (site.book.facts.notice if notice is None else notice))
    site.book.notices.put(found)
    site.book.machines.put(replace(machine, condition=Condition.RECLAIMING))
    site.book.instances.put(replace(site.book.instances[node], state=InstanceState.RECLAIMING))
    change_pods(site, lambda _, pod: pod.ask.place.node == node, lambda pod: _told_to_leave(pod, now))
    events.say("reclaim", node=node, deadline=found.deadline.isoformat())
    return found


def _told_to_leave(pod: Pod, now: datetime) -> Pod:
    return replace(pod, leave_at=pod.leave_at or now)


def advance(site: Site) -> None:
    """What the cloud does by itself: join what was bought, reclaim by the trace, end what is due."""
    now = site.now()
    for bought in list(site.book.instances.values()):
        if bought.state is InstanceState.PENDING and bought.ready_at <= now:
            _join(site, bought)
    _follow_trace(site, now)
    for machine in list(site.book.machines.values()):
        _advance_machine(site, machine, now)


def _join(site: Site, bought: Bought) -> None:
    site.book.machines.put(replace(site.book.stock[bought.offering].machine, name=bought.name))
    site.book.instances.put(replace(bought, state=InstanceState.READY))
    events.say("node-joined", node=bought.name)


def _follow_trace(site: Site, now: datetime) -> None:
    for wish in site.reclaims:
        machine = site.book.machines.get(wish.node)
        is_due = site.book.facts.founded_at + wish.at <= now
        if is_due and machine is not None and machine.condition is Condition.READY:
            reclaim(site, wish.node)


def _advance_machine(site: Site, machine: Machine, now: datetime) -> None:
    if machine.condition is Condition.RECLAIMING and site.book.notices[machine.name].deadline <= now:
        lose(site, machine)
    elif _may_be_dropped(machine, now) and not site.held().on_node(machine.name):
        site.book.machines.drop(machine.name)


def _may_be_dropped(machine: Machine, now: datetime) -> bool:
    if machine.condition is Condition.GONE:
        return True
    lost_at = machine.lost_at
    return machine.offering is not None and lost_at is not None and now - lost_at >= LOST_IS_SHOWN_FOR
