"""`world.yaml` -> a checked wish for a world. A key nobody knows is an error that names file and key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gpufleet.errors import GpufleetError, Invalid
from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Link, MigInstance, MigRemake, illegal_layout
from gpufleet.units import duration


def _span(raw: object) -> timedelta:
    try:
        return duration(str(raw))
    except GpufleetError as error:
        raise ValueError(str(error)) from None


def _money(raw: object) -> Fraction:
    """Through the text, so that 12.10 is exactly twelve and a tenth."""
    try:
        price = Fraction(str(raw))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"'{raw}' is not an amount; write it as \"12.00\"") from None
    if price < 0:
        raise ValueError(f"'{raw}' is below zero")
    return price


def _instance(raw: object) -> MigInstance:
    profile, at, start = str(raw).rpartition("@")
    if not at or not start.isdecimal():
        raise ValueError(f"'{raw}' is not a MIG instance; write it as 1g.10gb@6")
    return MigInstance(int(start), profile)


Span = Annotated[timedelta, BeforeValidator(_span)]
Money = Annotated[Fraction, BeforeValidator(_money)]
Slot = Annotated[MigInstance, BeforeValidator(_instance)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClockWish(_Strict):
    factor: float = Field(default=1.0, gt=0, le=1_000_000)


class MachineWish(_Strict):
    """What nodes and offerings have in common: the machine itself."""

    name: str = Field(min_length=1)
    region: str = ""
    capacity: CapacityType = CapacityType.OWNED
    model: str
    gpus: int = Field(ge=1, le=64)
    cpu: float | None = Field(default=None, gt=0)
    memory_gib: float | None = Field(default=None, gt=0)
    link: Link | None = None
    mig: MigRemake | None = None
    sharing: bool = True
    fabric: str = ""


class NodeWish(MachineWish):
    count: int = Field(default=1, ge=1, le=1000)
    position: tuple[str, ...] = ()
    layout: dict[int, tuple[Slot, ...]] = Field(default_factory=dict)
    unhealthy: tuple[int, ...] = ()
    provider: str = ""
    offering: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        if "{}" not in self.name:
            return (self.name,)
        return tuple(self.name.replace("{}", str(number)) for number in range(self.count))


class OfferingWish(MachineWish):
    zone: str
    leaf: str | None = None
    position: tuple[str, ...] | None = None
    """Where the levels are other than zone and leaf."""
    instance_type: str
    price: Money
    currency: str = "USD"
    launch_delay: Span = timedelta(seconds=2)
    available: int = Field(default=0, ge=0)

    @property
    def path(self) -> tuple[str, ...]:
        if self.position is not None:
            return self.position
        return (self.zone,) if self.leaf is None else (self.zone, self.leaf)


class ReclaimWish(_Strict):
    """A reclaim out of a trace: so long after the very first start."""

    at: Span
    node: str


class World(_Strict):
    version: Literal[1]
    levels: tuple[str, ...] = ("zone", "leaf")
    clock: ClockWish = ClockWish()
    nodes: tuple[NodeWish, ...] = ()
    offerings: tuple[OfferingWish, ...] = ()
    notice: Span = timedelta(seconds=10)
    reclaims: tuple[ReclaimWish, ...] = ()


def read_world(path: Path) -> World:
    """The world a file asks for; raises Invalid that names the file and the key."""
    try:
        raw = yaml.safe_load(path.read_text())
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        raise Invalid(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    try:
        world = World.model_validate(raw)
    except ValidationError as error:
        raise Invalid(f"{path}: {_complaint(error)}.") from None
    for problem in _problems(world):
        raise Invalid(f"{path}: {problem}.")
    return world


def _complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    if first["type"] == "extra_forbidden":
        return f"unknown key '{where}'"
    return f"'{where or 'the document'}': {first['msg'].removeprefix('Value error, ')}"


def _problems(world: World) -> Iterator[str]:
    sold = [offering.name for offering in world.offerings]
    names = [name for node in world.nodes for name in node.names]
    yield from (f"two offerings are called '{name}'" for name, n in Counter(sold).items() if n > 1)
    yield from (f"two nodes are called '{name}'" for name, n in Counter(names).items() if n > 1)
    for node in world.nodes:
        yield from _node_problems(node, world.levels, sold)
    for offering in world.offerings:
        yield from _machine_problems(offering, offering.path, world.levels)
    bought = {name for node in world.nodes if node.offering for name in node.names}
    for reclaim in world.reclaims:
        if reclaim.node not in bought:
            yield f"reclaims: '{reclaim.node}' is not a node with an offering, so no cloud can take it back"


def _node_problems(node: NodeWish, levels: tuple[str, ...], sold: list[str]) -> Iterator[str]:
    yield from _machine_problems(node, node.position, levels)
    if node.count > 1 and "{}" not in node.name:
        yield f"'{node.name}' has a count of {node.count}, so its name needs {{}} for the number"
    if node.offering is not None and node.offering not in sold:
        yield f"'{node.name}': no offering is called '{node.offering}'"
    for gpu in (*node.layout, *node.unhealthy):
        if not 0 <= gpu < node.gpus:
            yield f"'{node.name}' has no GPU {gpu}; it has 0 to {node.gpus - 1}"
    for gpu, instances in node.layout.items():
        if why := illegal_layout(gpu_model(node.model), instances):
            yield f"'{node.name}', layout of GPU {gpu}: {why}"


def _machine_problems(wish: MachineWish, path: tuple[str, ...], levels: tuple[str, ...]) -> Iterator[str]:
    try:
        gpu_model(wish.model)
    except Invalid as error:
        yield f"'{wish.name}': {str(error).rstrip('.')}"
    if len(path) != len(levels):
        yield f"'{wish.name}' is at {list(path)}, but the levels are {list(levels)}: one name for each"
