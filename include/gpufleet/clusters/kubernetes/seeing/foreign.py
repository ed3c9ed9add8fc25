"""Pods that are not ours, kept as what they take from their node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from gpufleet.clusters.kubernetes.rendering.resources import GPU, MIG_PREFIX, SHARED_GPU
from gpufleet.clusters.kubernetes.seeing.products import profile_of
from gpufleet.clusters.kubernetes.seeing.reading import MIB, Raw, listed, mapping, quantity, text


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """What one pod of others takes."""

    node: str
    gpus: int
    slices: tuple[tuple[str, int], ...]
    cpu: float
    memory_mib: int


@dataclass(slots=True)
class Taken:
    """What all pods of others take from one node."""

    gpus: int = 0
    slices: Counter[str] = field(default_factory=Counter)
    cpu: float = 0.0
    memory_mib: int = 0


def foreign_pod(raw: Raw) -> ForeignPod | None:
    """None for a pod that holds nothing: not on a node yet, or over."""
    node = text(raw, "spec", "nodeName")
    if not node or text(raw, "status", "phase") in ("Succeeded", "Failed"):
        return None
    asked = _asked(raw)
    slices = tuple(
        (profile_of(name.removeprefix(MIG_PREFIX)), int(value))
        for name, value in sorted(asked.items())
        if name.startswith(MIG_PREFIX) and "gb" in name and value >= 1
    )
    gpus = int(asked.get(GPU, 0) + asked.get(SHARED_GPU, 0))
    return ForeignPod(node, gpus, slices, float(asked.get("cpu", 0)), int(asked.get("memory", 0) / MIB))


def _asked(raw: Raw) -> dict[str, Fraction]:
    """The scheduler's own sum: all containers and sidecars together, or the largest init container if that is more."""
    first: dict[str, Fraction] = {}
    sums: dict[str, Fraction] = {}
    for container in listed(raw, "spec", "containers"):
        _add(sums, container)
    for container in listed(raw, "spec", "initContainers"):
        if text(container, "restartPolicy") == "Always":
            _add(sums, container)
        else:
            for name, value in _requests(container).items():
                first[name] = max(value, first.get(name, Fraction(0)))
    most = {name: max(sums.get(name, Fraction(0)), first.get(name, Fraction(0))) for name in sums.keys() | first.keys()}
    for name, value in mapping(raw, "spec", "overhead").items():
        most[str(name)] = most.get(str(name), Fraction(0)) + quantity(value)
    return most


def _add(sums: dict[str, Fraction], container: Raw) -> None:
    for name, value in _requests(container).items():
        sums[name] = sums.get(name, Fraction(0)) + value


def _requests(container: Raw) -> dict[str, Fraction]:
    """Requests; a limit alone is a request too."""
    both = {**mapping(container, "resources", "limits"), **mapping(container, "resources", "requests")}
    return {str(name): quantity(value) for name, value in both.items()}


def taken_by_node(pods: Iterable[ForeignPod]) -> dict[str, Taken]:
    found: dict[str, Taken] = {}
    for pod in pods:
        taken = found.setdefault(pod.node, Taken())
        taken.gpus += pod.gpus
        taken.slices.update(dict(pod.slices))
        taken.cpu += pod.cpu
        taken.memory_mib += pod.memory_mib
    return found
