"""What a bill is priced by: the rates as frozen facts. Defaults are those of rule 29."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

from gpufleet.chargeback.currencies import MINOR_UNITS

PLATFORM: Final = "platform"
"""Who bears what no team bears."""


class MigShare(StrEnum):
    """Which part of a GPU a MIG slice is (rule 18)."""

    DOMINANT = "dominant"
    COMPUTE = "compute"
    MEMORY = "memory"


class IdlePolicy(StrEnum):
    """Who bears the cost of idle GPUs (rule 22)."""

    PLATFORM = "platform"
    PROPORTIONAL = "proportional"
    QUOTA_HOLDERS = "quota-holders"


class Split(StrEnum):
    """How a shared cost is shared where it has no weights of its own (rule 23)."""

    EVEN = "even"
    GPU_HOURS = "gpu-hours"


Match = Mapping[str, str]
"""Facts a node must have: model, capacity, provider, region, node. No key matches every node."""


@dataclass(frozen=True, slots=True)
class Price:
    """List price of matching nodes in [begin, end); open where None. Exactly one of the two amounts is given."""

    match: Match
    per_gpu_hour: Fraction | None = None
    per_node_hour: Fraction | None = None
    begin: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Commitment:
    """A promise to pay for `gpus` matching GPUs in [begin, end), whole hours, used or not (rule 21)."""

    id: str
    owner: str
    match: Match
    gpus: int
    begin: datetime
    end: datetime
    upfront: Fraction = Fraction(0)
    per_gpu_hour: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class SharedCost:
    """A cost of [begin, end) that no GPU caused; `split` names the rule or gives each team's weight (rule 23)."""

    name: str
    amount: Fraction
    begin: date
    end: date
    split: Split | Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Rates:
    """One rates file. `quota` is None where none was given: then nothing unmarked is over-quota (rule 19)."""

    currency: str
    prices: tuple[Price, ...]
    timezone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    mig_share: MigShare = MigShare.DOMINANT
    idle: IdlePolicy = IdlePolicy.PLATFORM
    quota: Mapping[str, Fraction] | None = None
    over_quota_factor: Fraction = Fraction(1)
    commitments: tuple[Commitment, ...] = ()
    shared_costs: tuple[SharedCost, ...] = ()

    @property
    def quotas(self) -> Mapping[str, Fraction]:
        """Quota by team; a team it does not name has none."""
        return self.quota if self.quota is not None else MappingProxyType({})

    @property
    def decimals(self) -> int:
        """Decimals of the currency."""
        return MINOR_UNITS[self.currency]
