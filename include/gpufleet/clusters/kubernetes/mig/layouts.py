"""Wanted layouts as the file that mig-parted reads (schema v1), named by what is in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpufleet.clusters.kubernetes.rendering.names import Object, digest
from gpufleet.clusters.kubernetes.rendering.resources import GPU, mig_resource
from gpufleet.errors import Refused
from gpufleet.model.hardware import GpuModel, MigInstance, illegal_layout

CONFIG_MAP: Final = "gpufleet-mig-parted-config"
FILE: Final = "config.yaml"
"""The key under which the MIG manager looks."""

Profiles = tuple[tuple[str, int], ...]
"""(profile, how many), sorted; empty = the GPU is whole and its MIG mode off."""


@dataclass(frozen=True, slots=True)
class Layout:
    """By GPU, which instances it has. The MIG manager takes counts, not starts: it chooses the places itself."""

    gpus: tuple[Profiles, ...]

    @classmethod
    def of(cls, model: GpuModel, instances: Iterable[Iterable[MigInstance]]) -> Layout:
        """From planned instances, GPU by GPU; raises Refused for what cannot exist together."""
        found = []
        for index, planned in enumerate(map(tuple, instances)):
            if why := illegal_layout(model, planned):
                raise Refused(f"GPU {index} cannot be cut like that: {why}.")
            found.append(tuple(sorted(Counter(instance.profile for instance in planned).items())))
        return cls(tuple(found))

    @property
    def name(self) -> str:
        """The same layout has the same name on every node; another one has another name."""
        return f"gpufleet-{digest(json.dumps(self.gpus), 12)}"

    def resources(self, *, single: bool = False) -> dict[str, int]:
        """What the device plugin offers for it. Raises Refused where strategy `single` meets different profiles."""
        kinds = {profiles for profiles in self.gpus if profiles}
        if single and (len({name for p in kinds for name, _ in p}) > 1 or (kinds and () in self.gpus)):
            raise Refused("With MIG strategy 'single' all GPUs of a node have the same profile; use 'mixed'.")
        found: Counter[str] = Counter()
        for profiles in self.gpus:
            for profile, count in profiles or (("", 1),):
                found[GPU if single or not profile else mig_resource(profile)] += count
        return dict(found)

    def entries(self) -> list[Object]:
        """As mig-parted has it: GPUs that are alike share an entry."""
        alike: dict[Profiles, list[int]] = {}
        for index, profiles in enumerate(self.gpus):
            alike.setdefault(profiles, []).append(index)
        return [
            {"devices": gpus, "mig-enabled": bool(profiles), **({"mig-devices": dict(profiles)} if profiles else {})}
            for profiles, gpus in alike.items()
        ]


def with_layouts(known: Mapping[str, Any], layouts: Iterable[Layout]) -> Object:
    """The parsed config file with these layouts in it; what others put there stays."""
    added = {layout.name: layout.entries() for layout in layouts}
    return {"version": "v1", "mig-configs": dict(sorted({**known.get("mig-configs", {}), **added}.items()))}


def config_map(content: Mapping[str, Any], namespace: str) -> Object:
    """The ConfigMap that the operator's `migManager.config.name` must name. JSON is YAML too."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace},
        "data": {FILE: json.dumps(content, indent=2)},
    }
