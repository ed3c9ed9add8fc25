"""What must never happen to a gang with a deadline on spot: a deadline missed that on-demand alone would have met."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.simulation.spot.markets import lanes, recorded, terms

from gpufleet.procurement.spot.terms import Terms
from gpufleet.simulation.spot.market import Market
from gpufleet.simulation.spot.ours import Ours
from gpufleet.simulation.spot.policies import on_demand
from gpufleet.simulation.spot.replay import Outcome, replay

LANES = st.lists(st.lists(st.sampled_from("#."), min_size=40, max_size=40).map("".join), min_size=1, max_size=3)
FLAPPING = st.lists(st.integers(1, 6), min_size=12, max_size=12).map(
    lambda runs: "".join("#."[n % 2] * run for n, run in enumerate(runs)).ljust(40, "#")[:40]
)
MARKETS = st.one_of(LANES, st.lists(FLAPPING, min_size=1, max_size=3)).map(
    lambda zones: lanes(*zones, prices=(2, 3, 9))
)
TERMS = st.builds(Terms, work=st.integers(1, 90), deadline=st.integers(5, 140), checkpoint=st.integers(1, 40))


def ours(market: Market, asked: Terms, start: int) -> Outcome:
    return replay(market, asked, start, Ours(market, asked).job(start))


@given(MARKETS, TERMS, st.integers(0, 39))
def test_a_deadline_that_on_demand_would_have_met_is_never_missed(market: Market, asked: Terms, start: int) -> None:
    if not replay(market, asked, start, on_demand(market, asked)).missed:
        assert not ours(market, asked, start).missed


@given(MARKETS, TERMS, st.integers(0, 39))
def test_a_deadline_that_nothing_can_meet_ends_as_early_as_it_can(market: Market, asked: Terms, start: int) -> None:
    bought = replay(market, asked, start, on_demand(market, asked))
    if bought.missed:
        assert ours(market, asked, start).ticks <= bought.ticks


@given(st.integers(0, 2103), st.sampled_from([("48h", "51h"), ("48h", "53h"), ("24h", "26h")]))
@settings(max_examples=6, deadline=None)
def test_nor_by_jobs_that_fare_better_under_the_plain_rule(start: int, promised: tuple[str, str]) -> None:
    market, asked = recorded("us-central1", 1), terms(*promised)
    assert not ours(market, asked, start).missed


@given(st.integers(0, 2103), st.integers(1, 200))
@settings(max_examples=10, deadline=None)
def test_it_never_sees_rows_that_are_still_to_come(start: int, ticks: int) -> None:
    market, asked = recorded("us-east", 16), terms("12h", "20h")
    blind = list(market.up)
    for ahead in range(ticks, 400):
        blind[(start + ahead) % market.rows] = ()
    assert taken(market, asked, start, ticks) == taken(replace(market, up=tuple(blind)), asked, start, ticks)


def taken(market: Market, asked: Terms, start: int, ticks: int) -> list[int]:
    """Its first decisions."""
    found: list[int] = []
    decide = Ours(market, asked).job(start)

    def noted(at: object) -> int:
        found.append(decide(at))  # type: ignore[arg-type]
        return found[-1]

    replay(market, asked, start, noted)
    return found[:ticks]
