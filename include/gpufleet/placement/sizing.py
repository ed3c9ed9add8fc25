"""Whether a job asked for too much GPU memory or too little, judged by what it was measured to use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpufleet.model.hardware import GpuModel, MigProfile
from gpufleet.model.workload import Demand, Job, Share, Slice, Whole
from gpufleet.placement.geometry import geometry
from gpufleet.placement.memory import MemoryPoint, Need

SPARE = 1.25
"""A share that asks for more than this many times its need takes room from others."""


class Fit(StrEnum):
    """What is said of a job's ask; `measuring`: it has not run long enough to be judged."""

    OVER = "over-asked"
    UNDER = "under-asked"
    FITS = "fits"
    MEASURING = "measuring"


@dataclass(frozen=True, slots=True)
class Sizing:
    """The judgement and its sentence. MiB per GPU: `asked` is what the ask holds, None where it is by a name unknown."""

    fit: Fit
    asked_mib: int | None
    peak_mib: int
    says: str


def sizing(job: Job, model: GpuModel, peak: MemoryPoint, found: Need | None) -> Sizing:
    """Judge the first pod set of a job on cards of `model`.

    `peak` is the most it was seen to use; `found` is what its workload needs, None while it is still being measured.
    """
    demand = job.pod_sets[0].demand
    asked, used = _asked_mib(demand, model), peak.held_mib
    if says := _too_little(demand, model, peak, found):
        return Sizing(Fit.UNDER, asked, used, says)
    if found is None:
        return Sizing(Fit.MEASURING, asked, used, f"asked {_asked(demand, model)}, used {_gib(used)} so far")
    if better := _smaller(job, demand, model, found):
        says = f"asked {_asked(demand, model)}, never used more than {_gib(used)}; {better}"
        return Sizing(Fit.OVER, asked, used, says)
    return Sizing(Fit.FITS, asked, used, f"asked {_asked(demand, model)}, used at most {_gib(used)}")


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _asked_mib(demand: Demand, model: GpuModel) -> int | None:
    if isinstance(demand, Whole):
        return model.memory_mib
    if isinstance(demand, Slice) and demand.profile is not None:
        profile = model.profile(demand.profile)
        return profile.memory_mib if profile else None
    return demand.memory_mib


def _asked(demand: Demand, model: GpuModel) -> str:
    """The ask in words, such as `40 GiB`, `a 3g.40gb slice (39.5 GiB)` or `a whole H100-80 (80 GiB)`."""
    asked = _asked_mib(demand, model)
    size = "" if asked is None else f" ({asked / 1024:g} GiB)"
    match demand:
        case Whole():
            return f"a whole {model.name}{size}"
        case Slice(profile=str(profile)):
            return f"a {profile} slice{size}"
        case _:
            return f"{demand.memory_mib / 1024:.4g} GiB"


def _too_little(demand: Demand, model: GpuModel, peak: MemoryPoint, found: Need | None) -> str:
    asked, used = _asked_mib(demand, model), peak.held_mib
    advice = f"; ask for {_gib(found.memory_mib)}" if found else "; ask for more"
    if peak.killed:
        return f"asked {_asked(demand, model)} and was killed for memory at {_gib(used)}{advice}"
    if isinstance(demand, Whole) or not asked or used <= asked:
        return ""
    place = "its slice happened to be larger" if isinstance(demand, Slice) else "it took memory of others on its GPU"
    return f"asked {_asked(demand, model)} and used {_gib(used)}: {place}{advice}"


def _smaller(job: Job, demand: Demand, model: GpuModel, found: Need) -> str:
    """What would do instead, as half a sentence; empty where nothing smaller would."""
    if isinstance(demand, Share):
        too_much = demand.memory_mib > SPARE * found.memory_mib
        return f"{_gib(found.memory_mib)} would do" if too_much else ""
    if isinstance(demand, Whole) and (job.pods, demand.gpus) != (1, 1):
        return ""  # ranks of a gang need whole GPUs: instances cannot speak to each other
    compute = demand.compute if isinstance(demand, Slice) else 1
    enough = next(iter(geometry(model).suitable(Slice(found.memory_mib, compute))), None)
    if enough is None or enough.size >= _size(demand, model):
        return ""
    return _would_do(enough, demand, model)


def _would_do(enough: MigProfile, demand: Demand, model: GpuModel) -> str:
    if isinstance(demand, Slice) and demand.profile is None:
        return f"a {enough.name} slice would do"
    # memory was not the only thing asked for
    return f"a {enough.name} slice would hold it, with {enough.compute} of {model.compute_slices} parts of compute"


def _size(demand: Slice | Whole, model: GpuModel) -> int:
    """Memory slices that the ask takes of a card."""
    if isinstance(demand, Whole):
        return model.memory_slices
    return next((p.size for p in geometry(model).suitable(demand)), model.memory_slices)
