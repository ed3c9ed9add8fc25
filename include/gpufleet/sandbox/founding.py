"""A wish for a world -> the records of its first day; later starts keep what became of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from gpufleet.errors import Invalid
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, MigRemake
from gpufleet.sandbox.book import Book
from gpufleet.sandbox.records import Bought, Facts, InstanceState, LedgerRate, Machine, Stock
from gpufleet.sandbox.world import MachineWish, NodeWish, OfferingWish, World
from gpufleet.units import mib

CLOUD = "sandbox"
FOUNDING_TOKEN = "world"
"""The token of instances that were there from the start."""


def found(book: Book, world: World, now: datetime) -> None:
    """Bring the records in line with the file: on the first start all of it, later only what it newly names."""
    facts = _first_facts(world, now) if book.is_new else _later_facts(book.facts, world, now)
    book.set_facts(facts)
    _stock_up(book, world)
    known = set(facts.founded)
    for wish in world.nodes:
        for name in wish.names:
            if name not in known:
                _add_machine(book, wish, name, now)
    named = {name for wish in world.nodes for name in wish.names}
    book.set_facts(replace(facts, founded=tuple(sorted(known | named))))
    book.commit()


def _first_facts(world: World, now: datetime) -> Facts:
    return Facts(now, first_rate(world.clock.factor, now), world.levels, world.notice)


def _later_facts(known: Facts, world: World, now: datetime) -> Facts:
    if known.levels != world.levels:
        raise Invalid(
            f"The levels were {list(known.levels)} and are {list(world.levels)} now: nodes already have their places; "
            "use another --home for another world."
        )
    # Re-anchored at this instant: a new factor must not move the ledger, which never goes back.
    rate = LedgerRate(now, known.rate.at(now), world.clock.factor)
    return replace(known, notice=world.notice, rate=rate)


def first_rate(factor: float, now: datetime) -> LedgerRate:
    """A fast ledger starts at midnight UTC of the real day, so that its days are whole ones; others show real time."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return LedgerRate(now, midnight if factor > 1 else now, factor)


def _stock_up(book: Book, world: World) -> None:
    """Prices come from the file at every start, what is left from the book; what the file no longer names sells out."""
    wanted = {wish.name: wish for wish in world.offerings}
    for name, old in list(book.stock.items()):
        if name not in wanted:
            book.stock.put(replace(old, available=0))
    for name, wish in wanted.items():
        stock, known = _stock(wish), book.stock.get(name)
        book.stock.put(replace(stock, available=known.available) if known else stock)


def _add_machine(book: Book, wish: NodeWish, name: str, now: datetime) -> None:
    machine = replace(
        _machine(wish, name, wish.position),
        devices=tuple(
            Device(gpu, tuple(sorted(wish.layout.get(gpu, ()))), gpu not in wish.unhealthy) for gpu in range(wish.gpus)
        ),
        provider=wish.provider or (CLOUD if wish.offering else "owned"),
        labels=tuple(sorted(wish.labels.items())),
        offering=wish.offering,
    )
    book.machines.put(machine)
    if wish.offering is not None:
        stock, launched_at = book.stock[wish.offering], book.facts.rate.at(now)
        book.instances.put(
            Bought(
                name, wish.offering, FOUNDING_TOKEN, stock.zone, machine.capacity, InstanceState.READY, launched_at, now
            )
        )


def _stock(wish: OfferingWish) -> Stock:
    machine = replace(_machine(wish, wish.name, wish.path), provider=CLOUD, offering=wish.name)
    return Stock(
        machine=machine,
        name=wish.name,
        region=wish.region,
        zone=wish.zone,
        instance_type=wish.instance_type,
        price=wish.price,
        currency=wish.currency,
        launch_delay=wish.launch_delay,
        available=wish.available,
    )


def _machine(wish: MachineWish, name: str, position: tuple[str, ...]) -> Machine:
    model = gpu_model(wish.model)
    return Machine(
        name=name,
        model=model.name,
        devices=tuple(Device(gpu) for gpu in range(wish.gpus)),
        position=position,
        capacity=wish.capacity,
        link=wish.link or model.link,
        mig=wish.mig or (MigRemake.SLICE if model.profiles else MigRemake.NEVER),
        sharing=wish.sharing,
        cpu=wish.cpu,
        memory_mib=None if wish.memory_gib is None else mib(wish.memory_gib),
        fabric=wish.fabric,
        region=wish.region,
    )
