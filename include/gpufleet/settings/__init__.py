"""Config files to typed settings. An unknown key, or a wrong value, is an error that names file and key.

`GPUFLEET_HOME` is the folder of one fleet: its config files, its SQLite database unless `GPUFLEET_DATABASE_URL` names
another, its sandbox. There is no default home and no default world: both are always asked for.

Belongs here: what the files of a home may say. Never here: what follows from it, or a class of another room.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, model_validator

from gpufleet.errors import Invalid
from gpufleet.model.catalogue import gpu_models
from gpufleet.model.policy import BuyingPolicy, RecoveryPolicy, SchedulingPolicy
from gpufleet.model.tenancy import ANY_MODEL, Member, Queue, Role, Team
from gpufleet.procurement.egress import Egress
from gpufleet.procurement.guards import Guards
from gpufleet.procurement.portfolio import Offer
from gpufleet.settings.buying import Buying, buying_of, commitments_of, egress_of, guards_of
from gpufleet.settings.clouds import CloudWorld
from gpufleet.settings.reading import load_file, read_yaml
from gpufleet.settings.worlds import ClusterWorld, Duration, SandboxWorld, Strict, handed_queues
from gpufleet.units import GpuAmount


class Checkpoints(Strict):
    url: str = ""
    """fsspec URL of the store; default: the folder `checkpoints` of the home."""


class Scheduling(Strict):
    ageing_bound: Duration = SchedulingPolicy().ageing_bound
    move_services: Duration = SchedulingPolicy().move_services
    moves_per_pass: int = Field(default=SchedulingPolicy().moves_per_pass, ge=0)
    net_gain_horizon: Duration = SchedulingPolicy().net_gain_horizon
    reserve: bool = SchedulingPolicy().reserve
    response_ratio: bool = SchedulingPolicy().response_ratio
    net_gain_seniority: bool = SchedulingPolicy().net_gain_seniority
    leaf_slowdown: float = Field(default=SchedulingPolicy().leaf_slowdown, ge=1, le=10)
    usage_weight: float = Field(default=SchedulingPolicy().usage_weight, ge=0, le=100)


class Recovery(Strict):
    start_timeout: Duration = RecoveryPolicy().start_timeout
    observation_stale_after: Duration = RecoveryPolicy().observation_stale_after
    node_grace: Duration = RecoveryPolicy().node_grace
    max_failures: int = Field(default=RecoveryPolicy().max_failures, ge=1)
    node_backoff: Duration = RecoveryPolicy().node_backoff
    idle_below: float = Field(default=RecoveryPolicy().idle_below, ge=0, le=1)
    idle_alarm: Duration = RecoveryPolicy().idle_alarm


class FleetFile(Strict):
    """fleet.yaml."""

    version: Literal[1]
    fleet: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    clusters: tuple[ClusterWorld, ...]
    clouds: tuple[CloudWorld, ...] = ()
    checkpoints: Checkpoints = Checkpoints()
    scheduling: Scheduling = Scheduling()
    buying: Buying = Buying()
    recovery: Recovery = Recovery()
    portal_url: str = ""
    banner: str = ""

    @model_validator(mode="after")
    def _worlds_are_told_apart(self) -> FleetFile:
        for what, worlds in (("cluster", self.clusters), ("cloud", self.clouds)):
            _once(what, [world.name for world in worlds])
            if sum(world.kind == "sandbox" for world in worlds) > 1:
                raise ValueError(f"there is one sandbox in a home, so at most one {what} of that kind")
        _once("offering", [o.name for w in self.clouds if not isinstance(w, SandboxWorld) for o in w.offerings])
        return self


Amount = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Amounts = dict[str, Amount]
ROOT = "root"
"""The queue above all others; it is there by itself."""


class QueueEntry(Strict):
    name: str
    parent: str = ROOT
    deserved: Amounts = Field(default={})
    limit: Amounts = Field(default={})
    weight: float = Field(default=1.0, ge=0, le=1_000_000, allow_inf_nan=False)
    min_runtime: Duration = timedelta(0)


class MemberEntry(Strict):
    login: str
    role: Role = Role.MEMBER


class TeamEntry(Strict):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    queue: str
    projects: tuple[str, ...] = Field(min_length=1)
    members: tuple[MemberEntry, ...] = ()
    dags: tuple[str, ...] = ()
    namespace: str = ""
    priority_ceiling: int = Field(default=1000, ge=0, le=1000)


class TeamsFile(Strict):
    """teams.yaml."""

    version: Literal[1]
    queues: tuple[QueueEntry, ...]
    teams: tuple[TeamEntry, ...]

    @model_validator(mode="after")
    def _holds_together(self) -> TeamsFile:
        _check_queues(self.queues)
        _once("team", [team.name for team in self.teams])
        _once("DAG", [dag for team in self.teams for dag in team.dags])
        names, parents = {q.name for q in self.queues}, {q.parent for q in self.queues}
        for team in self.teams:
            _once(f"project of team '{team.name}'", list(team.projects))
            _once(f"member of team '{team.name}'", [member.login for member in team.members])
            if team.queue not in names:
                raise ValueError(f"team '{team.name}' names queue '{team.queue}', which is not in queues")
            if team.queue in parents:
                raise ValueError(
                    f"team '{team.name}' names queue '{team.queue}', which is a parent; only leaf queues take jobs"
                )
        return self


def _once(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} '{twice[0]}' stands there twice")


def _check_queues(queues: tuple[QueueEntry, ...]) -> None:
    """Names once, known parents, no circle, models of the catalogue."""
    _once("queue", [q.name for q in queues])
    parents = {q.name: q.parent for q in queues}
    if ROOT in parents:
        raise ValueError(f"queue '{ROOT}' is there by itself; leave it out")
    for queue in queues:
        if queue.parent not in parents.keys() | {ROOT}:
            raise ValueError(f"queue '{queue.name}' names parent '{queue.parent}', which is not in queues")
        for model in {*queue.deserved, *queue.limit} - {ANY_MODEL, *gpu_models()}:
            raise ValueError(f"queue '{queue.name}' names GPU model '{model}', which is not in the catalogue")
        _check_ancestors(queue.name, parents)


def _check_ancestors(name: str, parents: dict[str, str]) -> None:
    above, seen = parents[name], {name}
    while above != ROOT:
        if above in seen:
            raise ValueError(f"queue '{name}' is its own ancestor")
        seen.add(above)
        above = parents.get(above, ROOT)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a fleet is configured with."""

    home: Path
    database_url: str
    file: FleetFile
    teams: tuple[Team, ...]
    queues: tuple[Queue, ...]
    rates: dict[str, Any]
    handed: dict[str, str]
    """Queues that another scheduler places, each with the cluster where it does."""

    @property
    def checkpoints_url(self) -> str:
        return self.file.checkpoints.url or str(self.home / "checkpoints")


def home_from(environment: Mapping[str, str], given: str | None = None) -> Path:
    """The home that was asked for; raises Invalid that says what to set."""
    text = given or environment.get("GPUFLEET_HOME", "")
    if not text:
        raise Invalid(
            "No fleet is named: set GPUFLEET_HOME to its folder (make demo and make up print the line), or give --home."
        )
    home = Path(text).expanduser().resolve()
    if not (home / "fleet.yaml").is_file():
        raise Invalid(f"{home} has no fleet.yaml; GPUFLEET_HOME must be the folder of a fleet.")
    return home


def load_settings(home: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the files of a home; raises Invalid naming file and key."""
    file = load_file(home / "fleet.yaml", FleetFile)
    teams = load_file(home / "teams.yaml", TeamsFile)
    queues = tuple(map(_queue, teams.queues))
    return Settings(
        home=home,
        database_url=environment.get("GPUFLEET_DATABASE_URL") or f"sqlite:///{home / 'gpufleet.db'}",
        file=file,
        teams=tuple(map(_team, teams.teams)),
        queues=queues,
        handed=handed_queues(file.clusters, queues),
        rates=_rates(home / "rates.yaml"),
    )


def _rates(path: Path) -> dict[str, Any]:
    """As it stands, every value as text: instants and amounts are read by the bill's own rules."""
    return read_yaml(path, yaml.BaseLoader) if path.is_file() else {}


def _amounts(amounts: Amounts) -> tuple[tuple[str, GpuAmount], ...]:
    return tuple((model, GpuAmount.milli(round(value * 1000))) for model, value in sorted(amounts.items()))


def _queue(entry: QueueEntry) -> Queue:
    return Queue(
        entry.name, entry.parent, _amounts(entry.deserved), _amounts(entry.limit), entry.weight, entry.min_runtime
    )


def _team(entry: TeamEntry) -> Team:
    members = tuple(Member(m.login, m.role) for m in entry.members)
    space = entry.namespace or f"gpufleet-{entry.name}"
    return Team(entry.name, entry.queue, entry.projects, members, entry.dags, space, entry.priority_ceiling)


def scheduling_policy(file: FleetFile) -> SchedulingPolicy:
    return SchedulingPolicy(**file.scheduling.model_dump())


def buying_policy(file: FleetFile) -> BuyingPolicy:
    return buying_of(file.buying)


def guards(file: FleetFile) -> Guards:
    return guards_of(file.buying)


def commitments(file: FleetFile) -> tuple[Offer, ...]:
    return commitments_of(file.buying)


def egress(file: FleetFile) -> Egress | None:
    return egress_of(file.buying)


def recovery_policy(file: FleetFile) -> RecoveryPolicy:
    return RecoveryPolicy(**file.recovery.model_dump())
