"""What of a team's use its quota guarantees (rule 19), and what the holders of unused quota bear (rule 22)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpufleet.chargeback.cover import Cover
from gpufleet.chargeback.meter import Meter, Part
from gpufleet.chargeback.tally import DayTally


@dataclass(slots=True, eq=False)
class Stake:
    """A stretch while it runs: how much of it is guaranteed, how much over-quota."""

    rank: int
    """Place in the order in which stretches of a team take its quota."""
    guaranteed: Part
    over: Part
    marked: bool | None
    """What the scheduler said: guaranteed, over-quota, or nothing."""
    amount: int = 0


@dataclass(slots=True)
class TeamQuota:
    """One team's quota: marked use takes its part first, the unmarked stretches take the rest in their order."""

    quota: int
    marked: int = 0
    unmarked: Cover = field(default_factory=Cover)
    stakes: dict[int, Stake] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """Guaranteed and not used."""
        return max(0, self.quota - self.marked - self.unmarked.used)

    def rest(self) -> int:
        return max(0, self.quota - self.marked)


class Quotas:
    """Decides for every stretch, instant by instant. Without any quota all that is unmarked is guaranteed."""

    def __init__(self, meter: Meter, quotas: Mapping[str, int] | None) -> None:
        self._meter = meter
        self._given = quotas
        self._teams: dict[str, TeamQuota] = {}
        for team, quota in (quotas or {}).items():
            self._teams[team] = TeamQuota(quota, unmarked=Cover(quota))

    def add(self, team: str, stake: Stake) -> None:
        """Make a stretch known; nothing of it runs yet."""
        self._teams.setdefault(team, TeamQuota(0)).stakes[stake.rank] = stake

    def set_amount(self, team: str, stake: Stake, amount: int) -> None:
        """From now on so much of it runs."""
        added, stake.amount = amount - stake.amount, amount
        if stake.marked is False:
            self._meter.set_amount(stake.over, amount)
            return
        if self._given is None:
            self._meter.set_amount(stake.guaranteed, amount)
            return
        of_team = self._teams[team]
        if stake.marked:
            self._meter.set_amount(stake.guaranteed, amount)
            of_team.marked += added
            self._split(of_team, of_team.unmarked.resize(of_team.rest()))
        else:
            self._split(of_team, of_team.unmarked.put(stake.rank, amount))

    def _split(self, team: TeamQuota, ranks: list[int]) -> None:
        for rank in ranks:
            stake = team.stakes[rank]
            guaranteed = team.unmarked.covered(rank)
            self._meter.set_amount(stake.guaranteed, guaranteed)
            self._meter.set_amount(stake.over, stake.amount - guaranteed)

    def missing(self) -> list[tuple[str, int]]:
        """Each team's guaranteed amount that it does not use now, where there is any."""
        return [(name, team.missing) for name, team in sorted(self._teams.items()) if team.missing]


class QuotaHolders:
    """Rule 22, `quota-holders`: who reserved and does not use bears the idle GPUs, instant by instant."""

    def __init__(self, meter: Meter, quotas: Quotas) -> None:
        self._meter, self._quotas = meter, quotas
        self._known: dict[Part, tuple[int, int]] = {}
        self._idle = self._cost = 0

    def look(self) -> None:
        """Take note of what is idle now and what it costs; called when an instant is complete."""
        for part in self._meter.touched:
            self._idle -= self._known.get(part, (0, 0))[0]
            self._cost -= self._known.get(part, (0, 0))[1]
            covered = sum(amount * self._meter.rates[k] for k, amount in part.covered.items())
            self._known[part] = (part.amount, part.free * (part.seat.price or 0) + covered)
            self._idle += self._known[part][0]
            self._cost += self._known[part][1]
        self._meter.touched.clear()

    def book(self, day: DayTally, span: int) -> None:
        """With I idle GPUs that cost C a team that misses U bears C x U / max(I, all U)."""
        missing = self._quotas.missing() if self._cost else []
        divisor = max(self._idle, sum(m for _, m in missing))
        for team, amount in missing:
            day.borne[team, divisor] += self._cost * amount * span
