"""Which GPU model of the catalogue a label means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from gpufleet.model.catalogue import gpu_models
from gpufleet.model.hardware import GpuModel

MEMORY: Final = "nvidia.com/gpu.memory"
_MIG: Final = re.compile(r"-MIG-([0-9]+g\.[0-9]+gb(?:\.[a-z.]+)?)$", re.IGNORECASE)
_FAMILY: Final = re.compile(
    r"(?:^|[^a-z0-9])(gb300|gb200|gh200|b300|b200|h800|h200|h100|h20|a800|a100|a30|a10g?|l40s|l4|v100|t4)(?![0-9])"
)
_SIZE: Final = re.compile(r"(?<![0-9])([0-9]{2,3})g(?:i?b)?(?![a-z0-9])")
_SAME: Final = {"h800": "h100", "a800": "a100", "a10g": "a10"}
_KEPT_BACK: Final = 0.12
"""Share of a card's nominal memory that a driver may not report."""


def mig_profile_of(product: str) -> str | None:
    """The one profile of a node with strategy `single`: its product ends with it."""
    match = _MIG.search(product)
    return profile_of(match[1]) if match else None


def profile_of(text: str) -> str:
    """A profile as resources and labels write it (`1g.10gb.me`) in the catalogue's way (`1g.10gb+me`)."""
    size, *attributes = text.split("gb", 1)
    rest = attributes[0].removeprefix(".") if attributes else ""
    return f"{size}gb+{rest}" if rest else f"{size}gb"


def model_of(labels: Mapping[str, str], keys: tuple[str, ...]) -> GpuModel | None:
    """By the first label that names a model we know, its memory deciding between sizes."""
    memory = labels.get(MEMORY, "")
    mib = int(memory) if memory.isascii() and memory.isdecimal() and len(memory) < 9 else 0
    for key in keys:
        if key in labels and (found := _model(labels[key], mib)):
            return found
    return None


@lru_cache(maxsize=256)
def _model(product: str, mib: int) -> GpuModel | None:
    is_part = _MIG.search(product) is not None
    bare = _MIG.sub("", product).removesuffix("-SHARED")
    for model in gpu_models().values():
        if bare.lower() in {model.name.lower(), *(alias.lower() for alias in model.aliases)}:
            return model
    return _nearest(bare.lower().replace("_", "-"), 0 if is_part else mib)


def _nearest(product: str, mib: int) -> GpuModel | None:
    """The model of that family whose size is named, or whose memory is just above what the driver reports."""
    family = _FAMILY.search(product)
    if family is None:
        return _pro_6000(product)
    name = _SAME.get(family[1], family[1])
    sizes = {int(size) for size in _SIZE.findall(product)}
    alike = [m for m in gpu_models().values() if _is_of(m, name)]
    named = [m for m in alike if m.memory_mib // 1024 in sizes]
    fitting = [m for m in named or alike if not mib or m.memory_mib * (1 - _KEPT_BACK) <= mib <= m.memory_mib]
    if len(named or alike) == 1 and not fitting and not mib:
        return (named or alike)[0]
    return min(fitting, key=lambda m: m.memory_mib, default=None)


def _is_of(model: GpuModel, family: str) -> bool:
    words = [model.name.lower(), *(alias.lower() for alias in model.aliases)]
    return any(re.search(rf"(?:^|[^a-z0-9]){family}(?![0-9])", word.replace("nvl", "-nvl")) for word in words)


def _pro_6000(product: str) -> GpuModel | None:
    return (
        gpu_models().get("RTXPRO6000-96") if "rtx" in product and "6000" in product and "blackwell" in product else None
    )
