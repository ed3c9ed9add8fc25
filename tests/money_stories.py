"""A month with every kind of charge, made by the engine itself where it makes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from gpufleet.chargeback.billing import settled
from gpufleet.chargeback.buckets import InMemory
from gpufleet.chargeback.rates import Commitment, IdlePolicy, Price, Rates, SharedCost, Split
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.usage import Allocated, NodeUp, QuotaMark, Released, UsageEvent

MONTH = "2026-03"
TEN = datetime(2026, 3, 10, 10, tzinfo=UTC)
RATES = Rates(
    "USD",
    (Price({"capacity": "spot"}, Fraction("1.234567")), Price({}, Fraction(3))),
    idle=IdlePolicy.PROPORTIONAL,
    over_quota_factor=Fraction(1, 2),
    commitments=(
        Commitment(
            "ri-1", "platform", {"capacity": "reserved"}, 6,
            datetime(2026, 3, 10, tzinfo=UTC), datetime(2027, 3, 10, tzinfo=UTC), Fraction("8760.00"), Fraction("0.5"),
        ),
    ),
    shared_costs=(SharedCost("storage", Fraction(31), date(2026, 3, 1), date(2026, 4, 1), Split.EVEN),),
)  # fmt: skip


def events() -> list[UsageEvent]:
    """Three nodes, a gang on reserved capacity, a slice, a share, and spot use beyond the quota."""
    found: list[UsageEvent] = []
    for name, capacity, model, at in (
        ("r1", "reserved", "H100-80", TEN - timedelta(hours=2)),
        ("s1", "spot", "H100-80", TEN),
        ("a1", "on-demand", "A100-40", TEN),
    ):
        found.append(NodeUp(f"{name}-up", at, name, model, 4, capacity, "aws", "us-east-1"))
    for n in range(3):
        found += held(f"gang-{n}", "gang", "r1", n, "vision", "seg", 20)
    found += held("cut", "slice", "a1", 0, "nlp", "chat", 7, profile="3g.20gb", start=4)
    found += held("share", "share", "a1", 1, "nlp", "chat", 5, fraction=Fraction(1, 3))
    found += held("over", "over", "s1", 0, "nlp", "", 3, quota=QuotaMark.OVER_QUOTA)
    found.append(Allocated("open", TEN, "s1", "open", 1, "vision", "seg", 1))
    return found


def held(
    id: str, job: str, node: str, gpu: int, team: str, project: str, hours: int, **more: object
) -> list[UsageEvent]:
    begin = Allocated(id, TEN, node, job, 1, team, project, gpu, **more)  # type: ignore[arg-type]
    return [begin, Released(f"{id}-end", TEN + timedelta(hours=hours), node, job, 1, gpu)]


def month_of_everything() -> list[Charge]:
    found: list[Charge] = []
    for day in (date(2026, 3, 10), date(2026, 3, 11)):
        found += settled(events(), RATES, day, day + timedelta(days=1)).itemised(day, InMemory())[1]
    use = next(c for c in found if c.kind is ChargeKind.USE)
    lost = replace(use, id="c1", kind=ChargeKind.CREDIT, cost_nano=-5, billed_nano=-5, hours_nano=0, note="node lost")
    invoice = replace(
        use, id="c2", kind=ChargeKind.ADJUSTMENT, cost_nano=7, billed_nano=7, hours_nano=0, note="invoice"
    )
    shift = timedelta(days=20)
    late = replace(use, id="c3", begin=use.begin - shift, end=use.end - shift, corrects="2026-02")
    return sorted([*found, lost, invoice, late], key=lambda c: (c.team, c.project, c.job, c.day, c.id))
