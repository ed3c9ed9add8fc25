"""Small fleets full of trouble, for the bill: instants that coincide, stories that do not fit, rates of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from gpufleet.chargeback.rates import Commitment, IdlePolicy, MigShare, Price, Rates, SharedCost, Split
from gpufleet.model.usage import Allocated, Heartbeat, NodeDown, NodeUp, QuotaMark, Released, UsageEvent

T = TypeVar("T")
BEGIN = datetime(2026, 3, 9, 18, tzinfo=UTC)
FIRST = date(2026, 3, 9)
MODELS = ("A100-40", "H100-80", "A30-24", "T4-16")
SLICES = (
    ("3g.20gb", 0),
    ("3g.20gb", 4),
    ("4g.20gb", 0),
    ("2g.10gb", 4),
    ("1g.10gb", 6),
    ("3g.40gb", 0),
    ("3g.20gb", 2),
)
GPUS = 4


@dataclass
class World:
    """Events, rates and a window of some days."""

    events: list[UsageEvent]
    rates: Rates
    start: date
    end: date


class Dice:
    """Every choice goes through hypothesis, so a failure shrinks to a small story."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self._ids = 0

    def of(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))  # type: ignore[no-any-return]

    def some(self, most: int) -> range:
        return range(self.draw(st.integers(0, most)))

    def often(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) < percent)

    def at(self) -> datetime:
        return BEGIN + timedelta(minutes=self.of(15, 30, 60) * self.draw(st.integers(0, 60)))

    def id(self) -> str:
        """New, and not in the order of time."""
        self._ids += 1
        return f"{self.of('a', 'b', 'c')}{self._ids}"


@st.composite
def worlds(draw: Any, *, announced: bool = False, calm: bool = False) -> World:
    """`announced`: every node has one node-up and all is priced; `calm`: no policies, only prices."""
    dice = Dice(draw)
    nodes = [f"n{i}" for i in range(1 + len(dice.some(2)))]
    events = [e for node in nodes for e in _node(dice, node, announced)]
    for _ in dice.some(14):
        events += _holding(dice, nodes)
    if events and not announced and dice.often(30):
        events.append(replace(dice.of(*events), at=dice.at()))
    rates = _rates(dice, nodes, announced, calm)
    start = FIRST + timedelta(days=dice.of(0, 1))
    return World(draw(st.permutations(events)), rates, start, start + timedelta(days=dice.of(1, 2, 3)))


def _node(dice: Dice, node: str, announced: bool) -> list[UsageEvent]:
    ups = [BEGIN] if announced or dice.often(80) else []
    ups += [] if announced else [dice.at() for _ in dice.some(2)]
    found: list[UsageEvent] = [
        NodeUp(
            dice.id(), at, node, dice.of(*MODELS), dice.of(GPUS, 2), dice.of("owned", "spot"), region=dice.of(None, "x")
        )
        for at in ups
    ]
    return found + [NodeDown(dice.id(), dice.at(), node) for _ in range(dice.of(0, 0, 1, 2))]


def _holding(dice: Dice, nodes: Sequence[str]) -> list[UsageEvent]:
    at, node, gpu = dice.at(), dice.of(*nodes), dice.of(*range(GPUS))
    job, attempt = dice.of("p", "q", "r", "s"), dice.of(1, 1, 2, 3)
    what: dict[str, Any] = {}
    match dice.of("whole", "slice", "share"):
        case "slice":
            what["profile"], what["start"] = dice.of(*SLICES)
        case "share":
            what["fraction"] = dice.of(Fraction(1, 4), Fraction(1, 2), Fraction(3, 10), Fraction(1))
    marks = {"quota": dice.of(None, None, *QuotaMark), "priority": dice.of(None, 0, 5)}
    team, project = dice.of("ta", "tb", "platform"), dice.of("u", "v")
    found: list[UsageEvent] = [Allocated(dice.id(), at, node, job, attempt, team, project, gpu, **what, **marks)]
    later = [at + timedelta(minutes=m) for m in (0, 15, 60, 180, 600, 1500)]
    if dice.often(70):
        found.append(Released(dice.id(), dice.of(*later), node, job, attempt, gpu, dice.of(None, what.get("start"))))
    if dice.often(30):
        found.append(Heartbeat(dice.id(), dice.of(*later), node, dice.of(None, (job, attempt, gpu))))
    if dice.often(15):
        found.append(Allocated(dice.id(), dice.of(*later), node, job, attempt, "tb", "u", gpu, **what))
    return found


def _match(dice: Dice, nodes: Sequence[str]) -> dict[str, str]:
    found = {
        "model": dice.of("", "", *MODELS[:2]),
        "capacity": dice.of("", "", "spot"),
        "node": dice.of("", "", "", *nodes),
    }
    return {key: value for key, value in found.items() if value}


def _prices(dice: Dice, nodes: Sequence[str], complete: bool) -> tuple[Price, ...]:
    found: list[Price] = []
    for match in [m for m in (_match(dice, nodes) for _ in dice.some(3)) if m]:
        if any(p.match == match for p in found):
            continue
        amount = {dice.of("per_gpu_hour", "per_node_hour"): dice.of(Fraction(1), Fraction(5, 2), Fraction(1, 3))}
        cut = dice.of(None, dice.at())
        found += [Price(match, **amount, begin=cut)] + (
            [Price(match, per_gpu_hour=Fraction(7), end=cut)] if cut else []
        )
    return (*found, *([Price({}, per_gpu_hour=Fraction(2))] if complete or dice.often(50) else []))


def _rates(dice: Dice, nodes: Sequence[str], complete: bool, calm: bool) -> Rates:
    prices = _prices(dice, nodes, complete)
    zone = ZoneInfo(dice.of("UTC", "America/New_York", "Asia/Kolkata"))
    if calm:
        return Rates("USD", prices, zone)
    quota = dice.of(None, {}, {"ta": Fraction(1), "tb": Fraction(3, 2)}, {"ta": Fraction(3), "tz": Fraction(1)})
    idle = dice.of(*([p for p in IdlePolicy if quota is not None or p is not IdlePolicy.QUOTA_HOLDERS]))
    splits: tuple[Any, ...] = (*Split, {"ta": Fraction(2), "tz": Fraction(1)}, {"ta": Fraction(0)})
    shared = tuple(
        SharedCost(
            "s",
            Fraction(10),
            FIRST + timedelta(days=dice.of(-1, 0, 1)),
            FIRST + timedelta(days=dice.of(2, 3)),
            dice.of(*splits),
        )
        for _ in dice.some(2)
    )
    return Rates(
        dice.of("USD", "JPY", "KWD"),
        prices,
        zone,
        dice.of(*MigShare),
        idle,
        quota,
        dice.of(Fraction(1), Fraction(1, 2), Fraction(3, 2)),
        tuple(_commitment(dice, nodes, f"c{i}") for i in dice.some(3)),
        shared,
    )


def _commitment(dice: Dice, nodes: Sequence[str], id: str) -> Commitment:
    begin = BEGIN + timedelta(hours=dice.of(-20, 0, 7, 30))
    return Commitment(
        id,
        dice.of("platform", "ta", "tz"),
        _match(dice, nodes),
        dice.of(1, 2, 5),
        begin,
        begin + timedelta(hours=dice.of(1, 7, 40)),
        dice.of(Fraction(0), Fraction(10), Fraction("100.000000001")),
        dice.of(Fraction(0), Fraction(11, 10)),
    )
