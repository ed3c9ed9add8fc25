"""Gangs with defaults for tests of what Kubernetes is told, and golden files of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.gang import GangObjects, gang_objects
from gpufleet.model.hardware import Exactness, Node
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Container
from tests.builders import node

GOLDEN = Path(__file__).parent / "golden" / "kubernetes"
CONFIG = PodConfig(image="registry.example/gpufleet/job:1")


def counted(name: str = "n0", *, labels: Mapping[str, str] | None = None, **more: Any) -> Node:
    """A node whose device plugin picks the devices; `more` is what `builders.node` takes."""
    return node(name, exactness=Exactness.COUNT, labels=tuple(sorted((labels or {}).items())), **more)


def gang(*places: PodPlace, job: str = "train-1a2b", image: str = "", **more: Any) -> GangSpec:
    """A gang with a pod per place, ranked as given; `more` are fields of GangSpec, or of Container."""
    container = Container(more.pop("command", ("python", "train.py")), image, more.pop("env", (("SEED", "7"),)))
    pods = tuple(
        PodSpec(f"{job}-2-{rank}", rank, replace(place, rank=rank), container) for rank, place in enumerate(places)
    )
    given: dict[str, Any] = {"team": "vision", "namespace": "gpufleet-vision", "grace": timedelta(seconds=45), **more}
    return GangSpec(job=job, attempt=2, pods=pods, **given)


def rendered(spec: GangSpec, *nodes: Node, config: PodConfig = CONFIG) -> GangObjects:
    return gang_objects(spec, {found.name: found for found in nodes}, config, "main")


def main_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The container in which the job's own command runs."""
    found: dict[str, Any] = next(c for c in pod["spec"]["containers"] if c["name"] == "main")
    return found


def variables(pod: Mapping[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in main_of(pod)["env"]}


def assert_golden(name: str, objects: Iterable[Mapping[str, Any]]) -> None:
    """What is rendered is what the file holds. GPUFLEET_GOLDEN=write writes the file, for a person to read the change."""
    path, found = GOLDEN / f"{name}.yaml", json.loads(json.dumps(list(objects)))
    if os.environ.get("GPUFLEET_GOLDEN") == "write":
        path.write_text(yaml.safe_dump_all(found, sort_keys=False, width=120))
    assert found == list(yaml.safe_load_all(path.read_text()))
