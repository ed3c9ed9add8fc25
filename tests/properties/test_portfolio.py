"""What no portfolio may do, whatever is wanted and sold."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.model.capacity import CapacityType
from gpufleet.procurement.demand import HOURS, Class, Promise, Wanted
from gpufleet.procurement.milp import solve
from gpufleet.procurement.portfolio import COMMITTED, Offer, Portfolio, PortfolioPolicy, suits

MODEL = "H100-80"
PRICE = st.fractions(min_value=1, max_value=10, max_denominator=100)
SIZES = ((1, False), (2, False), (3, False), (8, False), (16, True))


@st.composite
def weeks(draw: st.DrawFn) -> list[Wanted]:
    """A few classes, each with a level by day and one by night."""
    classes = draw(st.lists(st.tuples(st.sampled_from(Promise), st.sampled_from(SIZES)), max_size=4, unique=True))
    found = []
    for promise, (gang, fabric) in classes:
        day, night = draw(st.integers(0, 9)), draw(st.integers(0, 9))
        gangs = tuple(day if 8 <= hour % 24 < 20 else night for hour in range(HOURS))
        found.append(Wanted(Class(promise, MODEL, gang, fabric), gangs))
    return found


@st.composite
def markets(draw: st.DrawFn) -> list[Offer]:
    """Reserved without end, the rest as it comes."""
    reserved = Offer("r", CapacityType.RESERVED, MODEL, 8, draw(PRICE), existing=draw(st.integers(0, 3)))
    others = [
        Offer(
            f"o{n}",
            draw(st.sampled_from((CapacityType.SPOT, CapacityType.ON_DEMAND, CapacityType.OWNED))),
            MODEL,
            draw(st.sampled_from((4, 8))),
            draw(PRICE),
            fabric=draw(st.booleans()),
            most=draw(st.sampled_from((None, 2, 5))),
            lost=draw(st.sampled_from((Fraction(0), Fraction(1, 4)))),
        )
        for n in range(draw(st.integers(0, 3)))
    ]
    return [reserved, *others]


POLICY = PortfolioPolicy(gap=0.01, seconds=20.0)


@given(weeks(), markets())
@settings(max_examples=60)
def test_the_inference_promise_is_never_broken_while_capacity_can_be_reserved(
    wanted: list[Wanted], offers: list[Offer]
) -> None:
    found = solve(wanted, offers, POLICY)
    assert found.keeps_the_promise
    served = sum(u.gpu_hours for u in found.used) + sum(s.gpu_hours for s in found.short)
    assert served == found.gpu_hours


@given(weeks(), markets())
@settings(max_examples=60)
def test_no_more_is_bought_than_the_work_can_fill(wanted: list[Wanted], offers: list[Offer]) -> None:
    found = solve(wanted, offers, POLICY)
    peak = max((sum(space_of(w) * w.gangs[h] for w in wanted) for h in range(HOURS)), default=0)
    for used in found.used:
        assert used.instances <= max(peak // used.offer.gpus + len(wanted) + 1, used.offer.existing)
        assert used.offer.most is None or used.instances <= max(used.offer.most, used.offer.existing)
        assert used.gpu_hours <= used.paid_gpu_hours
        assert used.new == 0 or used.offer.is_committed or used.gpu_hours > 0


def space_of(w: Wanted) -> int:
    """GPUs a gang may take at worst: on an instance of 4 or 8 a gang of 3 takes 4."""
    return 4 if w.of.gang == 3 else w.of.gang


@given(weeks(), markets())
@settings(max_examples=60)
def test_spot_takes_only_what_may_be_interrupted(wanted: list[Wanted], offers: list[Offer]) -> None:
    found = solve(wanted, offers, POLICY)
    may = sum(w.gpu_hours for w in wanted if w.of.promise is Promise.INTERRUPTIBLE)
    assert spot_hours(found) <= may
    for w in wanted:
        for offer in offers:
            if suits(offer, w.of) and w.of.promise is Promise.SERVICE:
                assert offer.capacity in COMMITTED


def spot_hours(found: Portfolio) -> int:
    return sum(u.gpu_hours for u in found.used if u.offer.capacity is CapacityType.SPOT)
