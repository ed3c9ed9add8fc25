"""The GPU models we know, read once from the packaged table `data/gpu_models.json` (its sources are named inside)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from gpufleet.errors import Invalid
from gpufleet.model.hardware import GpuModel, Link, MigProfile

UNREPORTED_GIB_PER_GB = Fraction(88, 100)
"""Where no device was seen reporting a slice's size: GiB counted per GB of the profile's name, on the safe side."""


def _memory_mib(raw: Mapping[str, Any]) -> int:
    """Reported memory in MiB, rounded down: a slice must never look larger than it is."""
    gib = raw["memory_gib"]
    if gib is None:
        gib = int(raw["name"].split(".")[1].split("gb")[0]) * UNREPORTED_GIB_PER_GB
    return int(Fraction(str(gib)) * 1024)


def _profile(raw: Mapping[str, Any]) -> MigProfile:
    return MigProfile(
        raw["name"],
        raw["compute"],
        raw["size"],
        tuple(raw["starts"]),
        _memory_mib(raw),
        raw["max_instances"],
        raw["sm"],
    )


def capability(text: str) -> tuple[int, int]:
    """`"9.0"` -> (9, 0); raises Invalid for anything else."""
    try:
        major, minor = text.split(".")
        return int(major), int(minor)
    except ValueError:
        raise Invalid(f"'{text}' is not a compute capability; write it as \"9.0\".") from None


def _model(raw: Mapping[str, Any]) -> GpuModel:
    return GpuModel(
        name=raw["name"],
        memory_mib=raw["memory_gib"] * 1024,
        compute_capability=capability(raw["compute_capability"]),
        memory_slices=raw["memory_slices"],
        compute_slices=raw["compute_slices"],
        link=Link(raw["link"]),
        profiles=tuple(map(_profile, raw["profiles"])),
        aliases=tuple(raw["aliases"]),
    )


@cache
def gpu_models() -> Mapping[str, GpuModel]:
    """Every known model by its name in our files, e.g. `H100-80`."""
    text = resources.files("gpufleet.model").joinpath("data/gpu_models.json").read_text()
    return MappingProxyType({m.name: m for m in map(_model, json.loads(text)["models"])})


def gpu_model(name: str) -> GpuModel:
    """The model of that name; raises Invalid that names the nearest known ones."""
    known = gpu_models()
    if name not in known:
        raise Invalid(f"GPU model '{name}' is not in the catalogue; known are {', '.join(sorted(known))}.")
    return known[name]
