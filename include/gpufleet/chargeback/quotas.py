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
        self._given = quotas is not None
        self._teams = {team: TeamQuota(quota, unmarked=Cover(quota)) for team, quota in (quotas or {}).items()}
        self.missing = {team: quota for team, quota in (quotas or {}).items() if quota}
        """Each team's guaranteed amount that it does not use now, where there is any."""

    def add(self, team: str, stake: Stake) -> None:
        """Make a stretch known; nothing of it runs yet."""
        self._teams.setdefault(team, TeamQuota(0)).stakes[stake.rank] = stake

    def set_amount(self, name: str, stake: Stake, amount: int) -> None:
        """From now on so much of it runs."""
        added, stake.amount = amount - stake.amount, amount
        if stake.marked is False:
            self._meter.set_amount(stake.over, amount)
        elif not self._given:
            self._meter.set_amount(stake.guaranteed, amount)
        else:
            team = self._teams[name]
            self._guarantee(team, stake, amount, added)
            self.missing[name] = team.missing
            if not team.missing:
                del self.missing[name]

    def _guarantee(self, team: TeamQuota, stake: Stake, amount: int, added: int) -> None:
        if stake.marked:
            self._meter.set_amount(stake.guaranteed, amount)
            team.marked += added
            changed = team.unmarked.resize(team.rest())
        else:
            changed = [stake.rank, *team.unmarked.put(stake.rank, amount)]
        for rank in changed:
            moved = team.stakes[rank]
            guaranteed = team.unmarked.covered(rank)
            self._meter.set_amount(moved.guaranteed, guaranteed)
            self._meter.set_amount(moved.over, moved.amount - guaranteed)


class QuotaHolders:
    """Rule 22, `quota-holders`: who reserved and does not use bears the idle GPUs, instant by instant."""

    def __init__(self, meter: Meter, quotas: Quotas) -> None:
        self._meter, self._quotas = meter, quotas
        self._known: dict[Part, tuple[int, int]] = {}
        self._idle = self._cost = 0

    def look(self) -> None:
        """Take note of what is idle now and what it costs; called when an instant is complete."""
        for part in self._meter.touched:
            idle, cost = self._known.get(part, (0, 0))
            covered = sum(amount * self._meter.rates[k] for k, amount in part.covered.items())
            now = self._known[part] = (part.amount, part.free * (part.seat.price or 0) + covered)
            self._idle += now[0] - idle
            self._cost += now[1] - cost
        self._meter.touched.clear()

    def book(self, day: DayTally, span: int) -> None:
        """With I idle GPUs that cost C a team that misses U bears C x U / max(I, all U)."""
        missing = self._quotas.missing
        if not self._cost or not missing:
            return
        divisor, cost = max(self._idle, sum(missing.values())), self._cost * span
        for team, amount in missing.items():
            day.borne[team, divisor] += cost * amount
