"""What must always hold of a day's charges: they are the bill, taken apart, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.money_worlds import World, worlds

from gpufleet.chargeback import Bill, bill
from gpufleet.chargeback.billing import bill_of, days_of, settled
from gpufleet.chargeback.buckets import Buckets, InMemory
from gpufleet.chargeback.conservation import up_time
from gpufleet.chargeback.days import days
from gpufleet.chargeback.evidence import Quarantine, by_node
from gpufleet.chargeback.nights import nights
from gpufleet.chargeback.statement import half_up
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.store.laid_aside import InFile

some = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(some, max_examples=10_000)

COLUMN = {
    ChargeKind.USE: "usage",
    ChargeKind.COMMITTED_USE: "commitment",
    ChargeKind.UNUSED: "commitment",
    ChargeKind.IDLE_SHARE: "idle",
    ChargeKind.SHARED: "shared",
}
HELD = (ChargeKind.USE, ChargeKind.COMMITTED_USE)


def day_of(world: World) -> list[Charge]:
    made = settled(world.events, world.rates, world.start, world.start + timedelta(days=1))
    return list(made.itemised(world.start, InMemory())[1])


def by_id(charges: Iterable[Charge]) -> list[Charge]:
    return sorted(charges, key=lambda charge: charge.id)


def exact_bill(world: World) -> Bill:
    start = world.start
    return bill(world.events, world.rates, start, start + timedelta(days=1), exact=True)


def check(world: World) -> None:
    exact, found = exact_bill(world), day_of(world)
    cells: dict[tuple[str, str, str], int] = defaultdict(int)
    for charge in found:
        if charge.kind in COLUMN and not _is_platforms(charge, world):
            cells[charge.team, charge.project, COLUMN[charge.kind]] += charge.cost_nano
    told = {(line.team, line.project, name): getattr(line, name) for line in exact.lines for name in COLUMN.values()}
    assert {k: v for k, v in cells.items() if v} == {k: v for k, v in told.items() if v}
    assert sum(c.cost_nano for c in found) == exact.total
    _check_hours(exact, found)
    stays = (c for c in found if c.kind is ChargeKind.IDLE or _is_away(c))
    assert sum(c.cost_nano for c in stays) == exact.idle_cost
    assert (
        sum(c.cost_nano for c in found if c.kind is ChargeKind.UNUSED and _is_platforms(c, world)) == exact.unused_cost
    )
    assert len({c.id for c in found}) == len(found)


def _check_hours(exact: Bill, found: list[Charge]) -> None:
    for mark, name in (("guaranteed", "guaranteed"), ("over-quota", "over_quota")):
        hours: dict[tuple[str, str], int] = defaultdict(int)
        for charge in found:
            if charge.kind in HELD and charge.quota == mark:
                hours[charge.team, charge.project] += charge.hours_nano
        told = {(line.team, line.project): getattr(line, name) for line in exact.lines}
        assert {k: v for k, v in hours.items() if v} == {k: v for k, v in told.items() if v}
    assert sum(c.hours_nano for c in found if c.kind is ChargeKind.IDLE) == exact.idle_hours
    assert sum(c.hours_nano for c in found if c.kind is ChargeKind.UNUSED) == exact.unused_hours


def _is_platforms(charge: Charge, world: World) -> bool:
    """What no line of the bill bears: idle that was moved off, and commitments of the platform itself."""
    if charge.kind is ChargeKind.UNUSED:
        return next(c.owner for c in world.rates.commitments if c.id == charge.commitment) == "platform"
    return _is_away(charge)


def _is_away(charge: Charge) -> bool:
    return charge.kind is ChargeKind.IDLE_SHARE and charge.note.startswith("borne by")


@some
@given(worlds())
def test_charges_are_the_exact_bill_in_every_line_and_column(world: World) -> None:
    check(world)


@pytest.mark.long
@pytest.mark.timeout(3600)
@many
@given(worlds())
def test_charges_are_the_exact_bill_in_ten_thousand_worlds(world: World) -> None:
    check(world)


@some
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_events_means_nothing(world: World, dice: Random) -> None:
    shuffled = world.events * 2
    dice.shuffle(shuffled)
    again = World(shuffled, world.rates, world.start, world.end)
    assert {c.id: c for c in day_of(world)} == {c.id: c for c in day_of(again)}


@some
@given(worlds(), st.integers(0, 3), st.booleans())
def test_how_a_night_is_sliced_and_where_it_is_laid_aside_shows_in_no_number(
    tmp_path_factory: pytest.TempPathFactory, world: World, enough: int, in_file: bool
) -> None:
    quarantine, folder = Quarantine(), tmp_path_factory.getbasetemp()

    def buckets() -> Buckets:
        return InFile(folder) if in_file else InMemory()

    wanted = days_of(world.start, world.end)
    made = nights(by_node(world.events, quarantine), world.rates, wanted, buckets(), quarantine, enough)
    whole = settled(world.events, world.rates, world.start, world.end)
    assert bill_of(made, exact=True) == bill_of(whole, exact=True)
    for day in reversed(wanted):
        found, charges = made.itemised(day, buckets())
        other, others = whole.itemised(day, InMemory())
        assert found == other and by_id(charges) == by_id(others)


@some
@given(worlds(announced=True))
def test_used_and_idle_are_all_the_time_that_the_nodes_were_up(world: World) -> None:
    (day,) = days(world.start, world.start + timedelta(days=1), world.rates.timezone)
    up = up_time(world.events, day.begin, day.end)
    found = [c for c in day_of(world) if c.kind in (*HELD, ChargeKind.IDLE)]
    assert all(c.hours_nano >= 0 and c.cost_nano >= 0 for c in found)
    assert up is None or sum(c.hours_nano for c in found) == half_up(up * 10**9)


@some
@given(worlds())
def test_a_charge_lies_inside_its_day_and_what_it_says_fits(world: World) -> None:
    for charge in day_of(world):
        assert charge.begin < charge.end and charge.day == world.start
        assert (charge.kind in HELD) == bool(charge.job)
        assert charge.billed_nano == (
            0 if charge.commitment and charge.kind is not ChargeKind.PURCHASE else charge.billed_nano
        )
