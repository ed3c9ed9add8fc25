"""What must always hold of a bill, whatever was told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from fractions import Fraction
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.money_worlds import World, worlds
from tests.properties.slow_bill import slow_bill

from gpufleet.chargeback import Bill, bill
from gpufleet.chargeback.billing import settled
from gpufleet.chargeback.conservation import faults
from gpufleet.chargeback.cover import Cover
from gpufleet.chargeback.days import days
from gpufleet.chargeback.evidence import Quarantine
from gpufleet.chargeback.sharing import Account, Charges
from gpufleet.chargeback.statement import deal
from gpufleet.formats.bill import to_json
from gpufleet.model.usage import NodeDown, NodeUp

some = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))

KEPT = ("idle_hours", "idle_cost", "unused_hours", "unused_cost")
"""What stays with the platform."""
Exact = Mapping[tuple[str, str], Mapping[str, Fraction]]


def exact_lines(account: Account) -> Exact:
    columns = [f.name for f in fields(Charges)]
    return {k: {c: getattr(v, c) for c in columns} for k, v in account.lines.items() if not v.is_nothing}


def account(world: World) -> Account:
    return exact(world)[0]


def exact(world: World) -> tuple[Account, Quarantine]:
    return settled(world.events, world.rates, world.start, world.end).account()


def printed(world: World, *, exact: bool = False) -> Bill:
    return bill(world.events, world.rates, world.start, world.end, exact=exact)


@settings(some, max_examples=100)
@given(worlds())
def test_the_quick_bill_is_the_slow_one(world: World) -> None:
    quick, quarantine = exact(world)
    slow = slow_bill(world.events, world.rates, world.start, world.end)
    assert exact_lines(quick) == slow.printed()
    assert (quick.idle_hours, quick.idle_cost) == (slow.idle_hours, slow.idle_cost)
    assert (quick.unused_hours, quick.unused_cost) == (slow.unused_hours, slow.unused_cost)
    assert {id for id, _ in quarantine.sorted()} == slow.aside


@some
@given(worlds(), st.booleans())
def test_charges_sum_to_cost_and_hours_to_the_time_the_nodes_were_up(world: World, exact: bool) -> None:
    assert list(faults(printed(world, exact=exact), world.events, world.rates)) == []


@some
@given(worlds(announced=True, calm=True))
def test_with_factor_one_the_total_is_the_cost_of_the_fleet(world: World) -> None:
    """Every announced GPU has a price at every instant: what is charged is what the nodes cost while they were up."""
    only_nodes = [e for e in world.events if isinstance(e, NodeUp | NodeDown)]
    fleet = account(replace(world, events=only_nodes))
    found = account(world)
    assert sum((c.usage for c in found.lines.values()), found.idle_cost) == fleet.idle_cost
    held = sum((c.guaranteed + c.over_quota for c in found.lines.values()), Fraction(0))
    assert held + found.idle_hours == fleet.idle_hours


@some
@given(worlds())
def test_a_bill_over_days_is_the_sum_of_its_days_before_rounding(world: World) -> None:
    whole = account(world)
    total = Account()
    for n in range((world.end - world.start).days):
        day = world.start + timedelta(days=n)
        part = account(World(world.events, world.rates, day, day + timedelta(days=1)))
        for line, charges in part.lines.items():
            for f in fields(Charges):
                setattr(total.lines[line], f.name, getattr(total.lines[line], f.name) + getattr(charges, f.name))
        for name in KEPT:
            setattr(total, name, getattr(total, name) + getattr(part, name))
    assert exact_lines(total) == exact_lines(whole)
    assert all(getattr(total, name) == getattr(whole, name) for name in KEPT)


@some
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_lines_means_nothing_and_twice_is_once(world: World, dice: Random) -> None:
    first = json.dumps(to_json(printed(world)))
    shuffled = world.events * 2
    dice.shuffle(shuffled)
    assert json.dumps(to_json(printed(World(shuffled, world.rates, world.start, world.end)))) == first
    assert json.dumps(to_json(printed(world))) == first


@some
@given(worlds())
def test_unused_and_used_are_the_amortised_cost(world: World) -> None:
    """Rule 21, over any window: what the commitments cost is in commitment costs, idle and unused, once."""
    rates = replace(world.rates, prices=(), shared_costs=())
    found = account(World(world.events, rates, world.start, world.end))
    spent = sum((c.commitment + c.idle for c in found.lines.values()), found.idle_cost + found.unused_cost)
    nobody = account(World([], rates, world.start, world.end))
    assert spent == sum((c.commitment for c in nobody.lines.values()), nobody.unused_cost)


@some
@given(st.integers(0, 10**6), st.lists(st.fractions(0, 100), min_size=1, max_size=9))
def test_dealing_gives_everything_and_nobody_more_than_a_unit_off(units: int, weights: list[Fraction]) -> None:
    shares = deal(units, weights)
    total = sum(weights)
    if not total:
        assert shares == [0] * len(weights)
        return
    assert sum(shares) == units
    assert all(abs(s - units * w / total) < 1 for s, w in zip(shares, weights, strict=True))


@some
@given(st.integers(0, 12), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=40))
def test_a_cover_is_what_counting_from_the_front_gives(capacity: int, moves: list[tuple[int, int]]) -> None:
    cover, amounts, seen = Cover(capacity), dict[int, int](), dict[int, int]()
    for rank, amount in moves:
        changed = cover.resize(amount * 3) if rank == 6 else cover.put(rank, amount)
        amounts |= {} if rank == 6 else {rank: amount}
        seen |= {r: cover.covered(r) for r in changed}
        left = cover.capacity
        for r in sorted(amounts):
            assert cover.covered(r) == seen.get(r, 0) == min(left, amounts[r])
            left -= seen.get(r, 0)
        assert cover.used == cover.capacity - left


@some
@given(worlds())
def test_days_follow_each_other_without_a_gap(world: World) -> None:
    found = days(world.start, world.end, world.rates.timezone)
    assert [d.end for d in found[:-1]] == [d.begin for d in found[1:]]
    assert all(d.begin < d.end for d in found)
