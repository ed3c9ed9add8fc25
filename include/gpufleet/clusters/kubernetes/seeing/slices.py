"""GPUs as a DRA driver tells them: ResourceSlices name every device, claims name the device that was given.

The attribute names are those of NVIDIA's driver (`gpu.nvidia.com`: type, productName, parentUUID, profile); a device
that does not follow them is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpufleet.clusters.kubernetes.rendering.names import FLEET
from gpufleet.clusters.kubernetes.seeing.reading import MIB, Raw, listed, mapping, quantity, text
from gpufleet.model.hardware import MOST_GPUS

DRIVER: Final = "gpu.nvidia.com"
_GPU: Final = re.compile(r"gpu-(\d{1,2})")
_OF_GPU: Final = re.compile(r"gpu-(\d{1,2})(?:-|$)")


@dataclass(frozen=True, slots=True)
class SliceFact:
    """The whole GPUs one ResourceSlice tells of one node."""

    node: str
    driver: str
    gpus: tuple[tuple[int, str, int], ...]
    """(index, product, memory in MiB)."""
    remakes: bool = False
    """Whether the driver offers MIG instances, which it makes when a pod comes."""


@dataclass(frozen=True, slots=True)
class ClaimFact:
    """GPUs that a claim holds: (node's pool, index); `ours` when it is of our fleet."""

    held: tuple[tuple[str, int], ...]
    fleet: str = ""


def slice_fact(raw: Raw) -> SliceFact | None:
    """None for a slice of another driver, or of no node."""
    driver, node = text(raw, "spec", "driver"), text(raw, "spec", "nodeName")
    if driver != DRIVER or not node:
        return None
    kinds = [(device, _attribute(device, "type")) for device in listed(raw, "spec", "devices")]
    gpus = [_gpu(device) for device, kind in kinds if kind == "gpu"]
    found = sorted({gpu[0]: gpu for gpu in gpus if gpu is not None}.values())
    return SliceFact(node, driver, tuple(found), any(kind == "mig" for _, kind in kinds))


def _gpu(device: Raw) -> tuple[int, str, int] | None:
    index = _GPU.fullmatch(text(device, "name"))
    if index is None or int(index[1]) >= MOST_GPUS or any(text(t, "effect") for t in listed(device, "taints")):
        return None
    memory = quantity(mapping(_capacity(device), "memory").get("value")) / MIB
    return int(index[1]), _attribute(device, "productName"), int(memory)


def _attribute(device: Raw, name: str) -> str:
    attributes = mapping(device, "attributes") or mapping(device, "basic", "attributes")
    return text(attributes, name, "string") or text(attributes, f"{DRIVER}/{name}", "string")


def _capacity(device: Raw) -> Raw:
    return mapping(device, "capacity") or mapping(device, "basic", "capacity")


def claim_fact(raw: Raw) -> ClaimFact | None:
    """None for a claim that holds no GPU."""
    held = []
    for result in listed(raw, "status", "allocation", "devices", "results"):
        index = _OF_GPU.match(text(result, "device"))
        if text(result, "driver") == DRIVER and index is not None:
            held.append((text(result, "pool"), int(index[1])))
    return ClaimFact(tuple(held), text(raw, "metadata", "labels", FLEET)) if held else None


def held_by_others(claims: Iterable[ClaimFact], fleet: str) -> dict[str, set[int]]:
    """Pool -> GPUs of it that somebody else has, wholly or in part."""
    found: dict[str, set[int]] = {}
    for claim in claims:
        for pool, gpu in claim.held if claim.fleet != fleet else ():
            found.setdefault(pool, set()).add(gpu)
    return found
