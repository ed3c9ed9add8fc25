"""The month on bought capacity: what the replay counts, on small work that is worked out by hand."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.capacity.market import RESTART, SCALE, Market, market
from benchmarks.capacity.replay import Replay, Sums, Way
from benchmarks.capacity.work import Gang, services, training

ON_DEMAND = Way("on demand", 0, 0.0, spot=False, on_demand=True)
SPOT = Way("spot", 0, 0.0, spot=True, on_demand=False, services_on_spot=True, pool_share=1.0)
MIX = Way("mix", 8, 4.0, spot=True, on_demand=True)


def market_of(*counts: int) -> Market:
    """One zone with so many machines, tick by tick."""
    return Market(Fraction(7), Fraction(4), Fraction(3), {"z": Fraction(2)}, {"z": [c // SCALE for c in counts]})


def gang(gpus: int, minutes: int, *, interruptible: bool = True, tick: int = 0) -> Gang:
    return Gang(tick, tick, gpus, minutes, interruptible)


def month(way: Way, counts: tuple[int, ...], serving: list[int], *gangs: Gang) -> Sums:
    return Replay(way, market_of(*counts), serving, list(gangs)).run(0, len(counts))


def test_on_demand_pays_whole_machines() -> None:
    sums = month(ON_DEMAND, (0,) * 6, [3] * 6, gang(2, 60))
    assert round(sums.cost, 6) == 2 * 8 * 7  # one machine for the service, one for the gang, an hour
    assert sums.late == [0.0] and sums.service_short == 0


def test_a_gang_on_spot_loses_what_it_has_not_saved_and_goes_on_where_there_is_room() -> None:
    sums = month(SPOT, (16, 16, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16), [0] * 12, gang(16, 40))
    assert sums.preemptions == 1 and sums.unfinished == 0
    assert sums.redone == 0  # it had saved at 20 minutes
    assert sums.late[0] > RESTART / 60


def test_services_on_spot_break_their_promise_when_the_cloud_takes_them() -> None:
    sums = month(SPOT, (16, 16, 8, 16), [16] * 4)
    assert sums.replicas_lost == 8 and sums.short_ticks == 1
    assert round(sums.service_short, 6) == round(8 / 6 + 8 * RESTART / 60, 6)


def test_the_mix_serves_first_and_sends_firm_work_on_demand_and_the_rest_to_spot() -> None:
    sums = month(MIX, (32,) * 6, [8] * 6, gang(8, 60, interruptible=False), gang(8, 60))
    assert sums.service_short == 0
    assert {kind: round(hours, 6) for kind, hours in sums.by_place.items()} == {"on-demand": 8, "spot": 8}
    assert round(sums.cost, 6) == 8 * (4 + 7 + 2)


def test_what_is_committed_and_idle_is_used_before_anything_is_bought() -> None:
    sums = month(MIX, (32,) * 6, [0] * 6, gang(8, 60))
    assert dict(sums.by_place) == {"committed": sum([8 / 6] * 6)} and round(sums.cost, 6) == 8 * 4


def test_the_work_is_the_same_for_the_same_seed_and_has_a_day() -> None:
    assert services(7, 1) == services(7, 1) != services(7, 2)
    assert max(services(1, 1)) > 1.4 * services(1, 1)[0]
    gangs = training(14, 1)
    assert gangs == training(14, 1) and {g.gpus for g in gangs} == {1, 2, 4, 8, 16, 32}


def test_the_real_market_has_eight_zones_of_which_each_has_its_price() -> None:
    found = market()
    assert len(found.spot) == 8 and all(price < found.on_demand for price in found.spot.values())
