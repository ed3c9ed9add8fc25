"""From what a day used to what everybody bears: idle, unused commitments and shared costs find their lines.

Everything here is per day (rule 3), so a bill over several days is the sum of its days before rounding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from fractions import Fraction

from gpufleet.chargeback.pricing import Phase
from gpufleet.chargeback.rates import PLATFORM, Commitment, IdlePolicy, Rates, SharedCost, Split
from gpufleet.chargeback.tally import DayTally, Line, Scale

ZERO = Fraction(0)


@dataclass(slots=True)
class Charges:
    """What one team and project used and bears, exact: GPU-hours first, then money."""

    guaranteed: Fraction = ZERO
    over_quota: Fraction = ZERO
    usage: Fraction = ZERO
    idle: Fraction = ZERO
    commitment: Fraction = ZERO
    shared: Fraction = ZERO

    @property
    def is_nothing(self) -> bool:
        return not any(getattr(self, f.name) for f in fields(self))


Cause = tuple[str, str, Line]
"""Column, what for (the GPU model of idle, the commitment's id, the shared cost's name), and who bears it."""


@dataclass(slots=True)
class Account:
    """The exact bill: every line, and what stays with the platform."""

    lines: dict[Line, Charges] = field(default_factory=lambda: defaultdict(Charges))
    idle_hours: Fraction = ZERO
    idle_cost: Fraction = ZERO
    unused_hours: Fraction = ZERO
    unused_cost: Fraction = ZERO
    causes: dict[Cause, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    """What lines bear that they did not use themselves, by itself."""
    unused: dict[int, tuple[Fraction, Fraction]] = field(default_factory=dict)
    """GPU-hours and cost that were promised and not used, by the commitment's place in the rates."""


def add_day(account: Account, day: DayTally, scale: Scale, rates: Rates, terms: Sequence[Sequence[Phase]]) -> None:
    """Add one day to the account."""
    sharing = _Day(account, day, scale)
    sharing.use(rates.over_quota_factor)
    sharing.idle(rates.idle)
    for k, (commitment, term) in enumerate(zip(rates.commitments, terms, strict=True)):
        sharing.unused(k, commitment, term)
    for cost in rates.shared_costs:
        sharing.shared(cost)


class _Day:
    """One day with its weights: the GPU-time of every line that has any."""

    def __init__(self, account: Account, day: DayTally, scale: Scale) -> None:
        self._account, self._day, self._scale = account, day, scale
        self._held = {line: tally.held for line, tally in sorted(day.lines.items()) if tally.held}
        self._of_team: dict[str, dict[Line, int]] = defaultdict(dict)
        for line, held in self._held.items():
            self._of_team[line[0]][line] = held

    def use(self, over_quota_factor: Fraction) -> None:
        """The factor multiplies list price over quota and nothing else (rule 20)."""
        hours, money = self._scale.hours, self._scale.money
        for line, tally in self._day.lines.items():
            charges = self._account.lines[line]
            charges.guaranteed += hours(tally.spans[0])
            charges.over_quota += hours(tally.spans[1])
            charges.usage += money(tally.usage[0]) + over_quota_factor * money(tally.usage[1])
            charges.commitment += money(tally.commitment)

    def idle(self, policy: IdlePolicy) -> None:
        """Rule 22. What nobody has a weight for stays with the platform."""
        self._account.idle_hours += self._scale.hours(self._day.idle)
        stays = self._scale.money(sum(self._day.idle_cost.values()))
        if policy is IdlePolicy.PROPORTIONAL:
            for model, costs in sorted(self._day.idle_cost.items()):
                weights = {line: self._day.lines[line].by_model.get(model, 0) for line in self._held}
                stays -= self._to_lines(self._scale.money(costs), weights, "idle", model)
        elif policy is IdlePolicy.QUOTA_HOLDERS:
            for team, cost in self._borne().items():
                stays -= cost
                self._to_team(team, cost, "idle", "")
        self._account.idle_cost += stays

    def _borne(self) -> dict[str, Fraction]:
        by_team: dict[str, list[Fraction]] = defaultdict(list)
        for (team, divisor), cost in sorted(self._day.borne.items()):
            by_team[team].append(Fraction(cost, divisor))
        # an hour of instants has an hour of divisors: pairs keep the common denominators small for longest
        return {team: _sum(costs) * self._scale.money(1) for team, costs in by_team.items()}

    def unused(self, k: int, commitment: Commitment, term: Sequence[Phase]) -> None:
        """Rule 21: what a commitment promised this day, less what it covered."""
        promised = cost = ZERO
        for phase in term:
            span = min(phase.end, self._day.day.end) - max(phase.begin, self._day.day.begin)
            hours = self._scale.hours(max(0, span) * commitment.gpus * self._scale.grains)
            promised += hours
            cost += hours * phase.rate
        cost -= self._scale.money(self._day.covered_cost[k])
        hours = promised - self._scale.hours(self._day.covered[k])
        before = self._account.unused.get(k, (ZERO, ZERO))
        self._account.unused[k] = (before[0] + hours, before[1] + cost)
        self._account.unused_hours += hours
        if commitment.owner == PLATFORM:
            self._account.unused_cost += cost
        else:
            self._to_team(commitment.owner, cost, "commitment", commitment.id)

    def shared(self, cost: SharedCost) -> None:
        """Rule 23: this day's part of a cost that no GPU caused."""
        if not cost.begin <= self._day.day.date < cost.end:
            return
        amount = cost.amount / ((cost.end - cost.begin) // timedelta(days=1))
        if cost.split is Split.GPU_HOURS:
            borne = self._to_lines(amount, self._held, "shared", cost.name)
        else:
            borne = self._to_teams(amount, self._weights(cost.split), cost.name)
        if amount != borne:
            self._bear((PLATFORM, ""), amount - borne, "shared", cost.name)

    def _weights(self, split: Split | Mapping[str, Fraction]) -> Mapping[str, Fraction]:
        return dict.fromkeys(self._of_team, Fraction(1)) if isinstance(split, Split) else split

    # ---------------------------------------------------------------- who bears it

    def _to_teams(self, amount: Fraction, weights: Mapping[str, Fraction], what: str) -> Fraction:
        total = sum(weights.values(), ZERO)
        for team, weight in sorted(weights.items()):
            if weight:
                self._to_team(team, amount * weight / total, "shared", what)
        return amount if total else ZERO

    def _to_team(self, team: str, amount: Fraction, column: str, what: str) -> None:
        """Rule 24: by its projects' GPU-hours; a team without any has a line of its own."""
        if team in self._of_team:
            self._to_lines(amount, self._of_team[team], column, what)
        else:
            self._bear((team, ""), amount, column, what)

    def _to_lines(self, amount: Fraction, weights: Mapping[Line, int], column: str, what: str) -> Fraction:
        """Share by weight; what was shared: all of it, or nothing where all weights are 0."""
        total = sum(weights.values())
        for line, weight in weights.items():
            if weight:
                self._bear(line, amount * weight / total, column, what)
        return amount if total else ZERO

    def _bear(self, line: Line, amount: Fraction, column: str, what: str) -> None:
        self._account.causes[column, what, line] += amount
        charges = self._account.lines[line]
        setattr(charges, column, getattr(charges, column) + amount)


def _sum(numbers: list[Fraction]) -> Fraction:
    while len(numbers) > 1:
        numbers = [sum(numbers[i : i + 2], ZERO) for i in range(0, len(numbers), 2)]
    return numbers[0] if numbers else ZERO
