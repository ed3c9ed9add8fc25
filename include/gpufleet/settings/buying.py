"""The key `buying` of fleet.yaml: when capacity is bought, and the guard rails around it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from pydantic import Field, model_validator

from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_models
from gpufleet.model.policy import BuyingPolicy
from gpufleet.procurement.egress import Egress
from gpufleet.procurement.guards import Guards, TeamGuard
from gpufleet.procurement.portfolio import Offer
from gpufleet.settings.worlds import Duration, Strict


class TeamBuying(Strict):
    daily: int | None = Field(default=None, ge=0)
    regions: tuple[str, ...] = ()


class Allow(Strict):
    """Patterns such as `spot-*`; an empty list allows all."""

    offerings: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()


class CommitmentEntry(Strict):
    """What could be committed to: a reservation on offer, or hardware that could be owned. `price` is per GPU-hour,
    used or not: everything that is paid for it over its term by the hours of the term."""

    name: str
    model: str
    gpus: int = Field(ge=1, le=16)
    price: Decimal = Field(gt=0)
    capacity: Literal[CapacityType.RESERVED, CapacityType.OWNED] = CapacityType.RESERVED
    region: str = ""
    most: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _model_is_known(self) -> CommitmentEntry:
        if self.model not in gpu_models():
            raise ValueError(f"commitment '{self.name}' names GPU model '{self.model}', which is not in the catalogue")
        return self


class EgressEntry(Strict):
    """Where checkpoints lie, and what a GB costs from there to another region of the cloud and to other clouds."""

    cloud: str
    region: str
    other_region: Decimal = Field(ge=0, lt=100)
    other_cloud: Decimal = Field(ge=0, lt=100)


class Buying(Strict):
    buy_after: Duration = BuyingPolicy().buy_after
    idle_for: Duration = BuyingPolicy().idle_for
    max_hourly: int = Field(default=0, ge=0)
    daily: int | None = Field(default=None, ge=0)
    teams: dict[str, TeamBuying] = Field(default={})
    max_instances: int | None = Field(default=None, ge=0)
    allow: Allow = Allow()
    approve_above: int | None = Field(default=None, ge=0)
    approve_total_above: int | None = Field(default=None, ge=0)
    approval_for: Duration = Guards().approval_for
    ask_again_after: Duration = Guards().ask_again_after
    dry_run: bool = True
    commitments: tuple[CommitmentEntry, ...] = ()
    billed_by: dict[str, Duration] = Field(default={})
    egress: EgressEntry | None = None


def buying_of(told: Buying) -> BuyingPolicy:
    return BuyingPolicy(buy_after=told.buy_after, idle_for=told.idle_for, max_hourly=told.max_hourly)


def commitments_of(told: Buying) -> tuple[Offer, ...]:
    """What the weekly review may advise to commit to."""
    return tuple(
        Offer(c.name, CapacityType(c.capacity), c.model, c.gpus, Fraction(c.price), c.region, most=c.most)
        for c in told.commitments
    )


def egress_of(told: Buying) -> Egress | None:
    if (said := told.egress) is None:
        return None
    return Egress(said.cloud, said.region, Fraction(said.other_region), Fraction(said.other_cloud))


def guards_of(told: Buying) -> Guards:
    return Guards(
        daily=told.daily,
        teams=tuple((name, TeamGuard(team.daily, team.regions)) for name, team in sorted(told.teams.items())),
        max_instances=told.max_instances,
        offerings=told.allow.offerings,
        regions=told.allow.regions,
        instance_types=told.allow.instance_types,
        approve_above=told.approve_above,
        approve_total_above=told.approve_total_above,
        approval_for=told.approval_for,
        ask_again_after=told.ask_again_after,
        dry_run=told.dry_run,
        billed_by=tuple(sorted((cloud, step) for cloud, step in told.billed_by.items() if step > timedelta(0))),
    )
