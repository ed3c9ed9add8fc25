"""Over-asked, under-asked or right: what is said of a job once its memory was measured."""

from __future__ import annotations

import pytest
from tests.builders import job, pods

from gpufleet.model.catalogue import gpu_model
from gpufleet.model.workload import PodSet, Slice, Workload
from gpufleet.placement.memory import Measured, MemoryPoint, Need, need
from gpufleet.placement.sizing import sizing


def ran(gib: float, *, killed: bool = False) -> MemoryPoint:
    return MemoryPoint(Workload("w"), round(gib * 1024), Measured.DEVICE, killed)


H100, T4 = "H100-80", "T4-16"

SAID = {
    "forty for twelve": (
        pods(slice_gib=40), H100, ran(12.1), "over-asked",
        "asked 40 GiB, never used more than 12.1 GiB; a 1g.20gb slice would do"),
    "a need that fills its slice": (pods(slice_gib=9), H100, ran(8), "fits", "asked 9 GiB, used at most 8.0 GiB"),
    "more than needed, but no smaller slice would hold it": (
        pods(slice_gib=19), H100, ran(10), "fits", "asked 19 GiB, used at most 10.0 GiB"),
    "compute was asked for, and only that slice has it": (
        PodSet(1, Slice(30 * 1024, compute=3)), H100, ran(2), "fits", "asked 30 GiB, used at most 2.0 GiB"),
    "a whole card for a small model": (
        pods(gpus=1), H100, ran(12.1), "over-asked",
        "asked a whole H100-80 (80 GiB), never used more than 12.1 GiB; "
        "a 1g.20gb slice would hold it, with 1 of 7 parts of compute"),
    "a whole card that cannot be cut": (
        pods(gpus=1), T4, ran(2), "fits", "asked a whole T4-16 (16 GiB), used at most 2.0 GiB"),
    "a whole card that is filled": (
        pods(gpus=1), H100, ran(70), "fits", "asked a whole H100-80 (80 GiB), used at most 70.0 GiB"),
    "ranks of a gang stay on whole cards": (
        pods(2, gpus=1), H100, ran(2), "fits", "asked a whole H100-80 (80 GiB), used at most 2.0 GiB"),
    "a named profile far too large": (
        pods(profile="3g.40gb"), H100, ran(5), "over-asked",
        "asked a 3g.40gb slice (39.5 GiB), never used more than 5.0 GiB; "
        "a 1g.10gb slice would hold it, with 1 of 7 parts of compute"),
    "a share with room for three": (
        pods(share="500/30"), H100, ran(8), "over-asked", "asked 30 GiB, never used more than 8.0 GiB; 9.4 GiB would do"),
    "a share with a little room": (pods(share="500/10"), H100, ran(8), "fits", "asked 10 GiB, used at most 8.0 GiB"),
    "a share that takes more than it asked": (
        pods(share="500/6"), H100, ran(8), "under-asked",
        "asked 6 GiB and used 8.0 GiB: it took memory of others on its GPU; ask for 9.4 GiB"),
    "saved by a larger slice": (
        pods(slice_gib=6), H100, ran(8), "under-asked",
        "asked 6 GiB and used 8.0 GiB: its slice happened to be larger; ask for 9.4 GiB"),
    "killed": (
        pods(slice_gib=9), H100, ran(9.8, killed=True), "under-asked",
        "asked 9 GiB and was killed for memory at 9.8 GiB; ask for more"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "model", "peak", "fit", "says"), SAID.values(), ids=SAID)
def test_what_is_said(asked: PodSet, model: str, peak: MemoryPoint, fit: str, says: str) -> None:
    found = need([peak], Workload("w"))
    said = sizing(job("j", asked), gpu_model(model), peak, found if isinstance(found, Need) else None)
    assert (said.fit, said.says) == (fit, says)


def test_a_job_that_only_began_is_not_judged() -> None:
    said = sizing(job("j", pods(slice_gib=40)), gpu_model(H100), ran(3), None)
    assert (said.fit, said.says) == ("measuring", "asked 40 GiB, used 3.0 GiB so far")
