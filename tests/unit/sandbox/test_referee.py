"""Every refusal of the referee, by its sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.sandbox.worlds import PretendedSite, ask, pretended, share_on, slice_on, whole

from gpufleet.errors import GpufleetError, Permanent, Refused
from gpufleet.model.hardware import MigInstance
from gpufleet.model.workload import Container
from gpufleet.sandbox import gangs, machines, market
from gpufleet.sandbox.caretaker import turn
from gpufleet.sandbox.records import GangAsk

A, B, C = "res-0", "spot-a0", "spot-a1"


@pytest.fixture
def world(tmp_path: Path) -> PretendedSite:
    """holder has GPUs 0 and 1 of res-0 whole, sharer half of GPU 2, slicer the slice of GPU 7; B cordoned, C going."""
    world = pretended(tmp_path)
    for gang in (
        ask("holder", whole(A, 0, 1, cpu=60, memory_mib=800_000)),
        ask("sharer", share_on(A, 2, 600, 50_000)),
        ask("slicer", slice_on(A, 7, "1g.10gb", 6)),
    ):
        gangs.launch(world.site, gang)
    with turn(world.site):
        machines.set_health(world.site, A, 5, healthy=False)
        machines.cordon(world.site, B, on=True)
        market.reclaim(world.site, C)
        machines.repartition(
            world.site, A, 6, destroy=(), create=(MigInstance(0, "1g.10gb"), MigInstance(4, "3g.40gb"))
        )
    return world


LAUNCHES = {
    "a whole GPU is not given twice": (
        ask("late", whole(A, 1)),
        "GPU 1 of node res-0 is held whole by holder: late cannot have it whole.",
    ),
    "a whole GPU is not given beside a slice": (
        ask("late", whole(A, 7)),
        "GPU 7 of node res-0 is held as slice 1g.10gb@6 by slicer: late cannot have it whole.",
    ),
    "a whole GPU is not given beside a share": (
        ask("late", whole(A, 2)),
        "GPU 2 of node res-0 is held as a share of 600/1000 by sharer: late cannot have it whole.",
    ),
    "a GPU that is cut is not given whole": (
        ask("late", whole(A, 6)),
        "GPU 6 of node res-0 is cut into MIG instances (1g.10gb@0, 3g.40gb@4): late cannot have it whole.",
    ),
    "a slice is not given twice": (
        ask("late", slice_on(A, 7, "1g.10gb", 6)),
        "GPU 7 of node res-0 is held as slice 1g.10gb@6 by slicer: late cannot have 1g.10gb@6.",
    ),
    "a slice is not given twice inside one gang": (
        ask("late", slice_on(A, 6, "1g.10gb", 0), slice_on(A, 6, "1g.10gb", 0)),
        "GPU 6 of node res-0 is held as slice 1g.10gb@0 by late: late cannot have 1g.10gb@0.",
    ),
    "a slice is not given on a whole GPU": (
        ask("late", slice_on(A, 0, "1g.10gb", 0)),
        "GPU 0 of node res-0 is held whole by holder: late cannot have 1g.10gb@0.",
    ),
    "a slice must exist": (
        ask("late", slice_on(A, 6, "1g.10gb", 1)),
        "GPU 6 of node res-0 has no MIG instance 1g.10gb@1 for late (it has: 1g.10gb@0, 3g.40gb@4).",
    ),
    "a slice must have the profile that exists": (
        ask("late", slice_on(A, 6, "4g.40gb", 0)),
        "GPU 6 of node res-0 has no MIG instance 4g.40gb@0 for late (it has: 1g.10gb@0, 3g.40gb@4).",
    ),
    "shares stay within one card": (
        ask("late", share_on(A, 2, 500, 1_000)),
        "GPU 2 of node res-0 would be given away to 1100/1000 with sharer beside late.",
    ),
    "shares stay within the card's memory": (
        ask("late", share_on(A, 2, 400, 32_000)),
        "GPU 2 of node res-0 has 81920 MiB and would have to hold 82000 MiB with sharer beside late.",
    ),
    "a share alone stays within one card": (
        ask("late", share_on(A, 3, 1001, 1)),
        "GPU 3 of node res-0 would be given away to 1001/1000 with late alone.",
    ),
    "a share is not given on a whole GPU": (
        ask("late", share_on(A, 0, 100, 1)),
        "GPU 0 of node res-0 is held whole by holder: late cannot share it.",
    ),
    "a share is not given on a GPU that is cut": (
        ask("late", share_on(A, 6, 100, 1)),
        "GPU 6 of node res-0 is cut into MIG instances (1g.10gb@0, 3g.40gb@4): late cannot share it.",
    ),
    "a pod needs no more than its slice has": (
        ask("late", slice_on(A, 6, "1g.10gb", 0), need_mib=9_985),
        "Pod late-1-0 of late needs 9985 MiB, but its place on GPU 6 of node res-0 has 9984 MiB.",
    ),
    "a pod needs no more than its share has": (
        ask("late", share_on(A, 3, 500, 4_000), need_mib=4_001),
        "Pod late-1-0 of late needs 4001 MiB, but its place on GPU 3 of node res-0 has 4000 MiB.",
    ),
    "an unhealthy GPU is not given": (
        ask("late", whole(A, 5)),
        "GPU 5 of node res-0 is unhealthy: late cannot use it.",
    ),
    "nothing starts on a cordoned node": (
        ask("late", whole(B, 0)),
        "Node spot-a0 is cordoned: late cannot start there.",
    ),
    "nothing starts on a node that was given notice": (
        ask("late", whole(C, 0)),
        "Node spot-a1 is reclaiming: late cannot start there.",
    ),
    "a node must exist": (
        ask("late", whole("nowhere", 0)),
        "Node nowhere does not exist: late cannot start there.",
    ),
    "a GPU must exist": (
        ask("late", whole(A, 8)),
        "Node res-0 has no GPU 8; it has 0 to 7.",
    ),
    "a pod may not name one GPU twice": (
        ask("late", whole(A, 3, 3)),
        "GPU 3 of node res-0 is held whole by late: late cannot have it whole.",
    ),
    "host cores are not given twice": (
        ask("late", whole(A, 3, cpu=40)),
        "Node res-0 has 96 CPU cores; late beside holder and sharer and slicer would use 100.",
    ),
    "host memory is not given twice": (
        ask("late", whole(A, 3, memory_mib=300_000)),
        "Node res-0 has 1048576 MiB of host memory; late beside holder and sharer and slicer would use 1100000.",
    ),
    "the last pod's refusal refuses the gang": (
        ask("late", whole(A, 3), whole(A, 4), whole(A, 0)),
        "GPU 0 of node res-0 is held whole by holder: late cannot have it whole.",
    ),
    "another gang under the same attempt is refused": (
        ask("holder", whole(A, 3)),
        "Attempt 1 of holder is there already and is not the same gang.",
    ),
    "a pod must ask for something": (
        ask("late", whole(A)),
        "Pod late-1-0 of late must ask for exactly one of whole GPUs, slices and shares.",
    ),
    "a share must be something": (
        ask("late", share_on(A, 3, 0, 10)),
        "Pod late-1-0 of late asks for 0/1000 and 10 MiB: no share.",
    ),
    "a gang has pods": (ask("late"), "Attempt 1 of late has no pods."),
    "attempts count from 1": (
        ask("late", whole(A, 3), attempt=0),
        "Attempts count from 1; late asks for attempt 0.",
    ),
    "a job's id names a folder": (
        ask("../late", whole(A, 3)),
        "The job id '../late' cannot name a folder: it is empty or has a slash in it.",
    ),
}


@pytest.mark.parametrize(("gang", "want"), LAUNCHES.values(), ids=LAUNCHES)
def test_launch_is_refused(world: PretendedSite, gang: GangAsk, want: str) -> None:
    before = _everything(world)
    with pytest.raises(Refused) as refusal, turn(world.site):
        gangs.launch(world.site, gang)
    assert str(refusal.value) == want
    assert _everything(world) == before, "a refused request must change nothing"


def test_a_rank_is_there_once(world: PretendedSite) -> None:
    gang = ask("late", whole(A, 3), whole(A, 4))
    twice = replace(gang, pods=(gang.pods[0], replace(gang.pods[1], rank=0)))
    with pytest.raises(Refused, match="has rank 0 2 times"):
        gangs.launch(world.site, twice)


def test_a_pod_without_a_command_can_never_start(world: PretendedSite) -> None:
    gang = ask("late", whole(A, 3))
    empty = replace(gang, pods=(replace(gang.pods[0], container=Container()),))
    with pytest.raises(Permanent, match="has no command"):
        gangs.launch(world.site, empty)


def test_a_node_that_offers_no_shares_gives_none(tmp_path: Path) -> None:
    node = {"name": "n", "model": "H100-80", "gpus": 1, "position": ["z", "l"], "sharing": False}
    world = pretended(tmp_path, nodes=[node])
    with pytest.raises(Refused, match="Node n offers no shares: late cannot have one of GPU 0"):
        gangs.launch(world.site, ask("late", share_on("n", 0, 500, 1)))


LAYOUTS = {
    "an instance in use is not destroyed": (
        (7, ["1g.10gb@6"], []),
        "GPU 7 of node res-0 is held as slice 1g.10gb@6 by slicer: it cannot be remade.",
    ),
    "a GPU held whole is not cut": (
        (0, [], ["1g.10gb@0"]),
        "GPU 0 of node res-0 is held whole by holder: it cannot be remade.",
    ),
    "a shared GPU is not cut": (
        (2, [], ["1g.10gb@0"]),
        "GPU 2 of node res-0 is held as a share of 600/1000 by sharer: it cannot be remade.",
    ),
    "instances do not overlap": (
        (6, [], ["2g.20gb@0"]),
        "GPU 6 of node res-0 cannot be cut like that: 2g.20gb@0 overlaps 1g.10gb@0 in memory slice 0.",
    ),
    "an instance starts where it may": (
        (3, [], ["2g.20gb@1"]),
        "GPU 3 of node res-0 cannot be cut like that: 2g.20gb may not start at 1 on H100-80 (legal: [0, 2, 4]).",
    ),
    "a profile must exist": (
        (3, [], ["5g.50gb@0"]),
        "GPU 3 of node res-0 cannot be cut like that: H100-80 has no MIG profile 5g.50gb.",
    ),
    "a GPU must exist to be cut": ((9, [], ["1g.10gb@0"]), "Node res-0 has no GPU 9; it has 0 to 7."),
}


@pytest.mark.parametrize(("change", "want"), LAYOUTS.values(), ids=LAYOUTS)
def test_repartition_is_refused(world: PretendedSite, change: tuple[int, list[str], list[str]], want: str) -> None:
    gpu, destroy, create = change
    before = _everything(world)
    with pytest.raises(Refused) as refusal, turn(world.site):
        machines.repartition(world.site, A, gpu, destroy=_instances(destroy), create=_instances(create))
    assert str(refusal.value) == want
    assert _everything(world) == before, "a refused request must change nothing"


REMAKES = {
    "empty-gpu needs an empty GPU": ("empty-gpu", 0, "while the GPU is empty; slicer is on it"),
    "empty-node needs an empty node": ("empty-node", 1, "while the node is empty; slicer is on it"),
    "never is never": ("never", 1, "The MIG layout of node n is never remade, so GPU 1 stays as it is."),
}


@pytest.mark.parametrize(("mig", "gpu", "want"), REMAKES.values(), ids=REMAKES)
def test_remaking_keeps_the_nodes_way(tmp_path: Path, mig: str, gpu: int, want: str) -> None:
    node = {
        "name": "n",
        "model": "H100-80",
        "gpus": 2,
        "position": ["z", "l"],
        "mig": mig,
        "layout": {0: ["1g.10gb@0"]},
    }
    world = pretended(tmp_path, nodes=[node])
    gangs.launch(world.site, ask("slicer", slice_on("n", 0, "1g.10gb", 0)))
    with pytest.raises(Refused, match=want):
        machines.repartition(world.site, "n", gpu, destroy=(), create=_instances(["1g.10gb@4"]))


def test_a_repartition_that_is_done_already_is_done(world: PretendedSite) -> None:
    create, destroy = _instances(["1g.10gb@0", "2g.20gb@2"]), _instances(["3g.40gb@4"])
    for _ in range(2):
        with turn(world.site):
            machines.repartition(world.site, A, 6, destroy=destroy, create=create)
    assert list(map(str, world.site.book.machines[A].device(6).instances)) == ["1g.10gb@0", "2g.20gb@2"]


def test_a_used_instance_stays_while_its_neighbours_are_remade(world: PretendedSite) -> None:
    with turn(world.site):
        machines.repartition(world.site, A, 7, destroy=(), create=_instances(["3g.40gb@0"]))
    assert list(map(str, world.site.book.machines[A].device(7).instances)) == ["3g.40gb@0", "1g.10gb@6"]


def _instances(names: list[str]) -> tuple[MigInstance, ...]:
    pairs = (name.split("@") for name in names)
    return tuple(MigInstance(int(start), profile) for profile, start in pairs)


def _everything(world: PretendedSite) -> tuple[object, ...]:
    book = world.site.book
    return dict(book.machines), dict(book.gangs), dict(book.stock), dict(book.instances), dict(book.notices)


def test_errors_are_of_the_kinds_that_callers_know() -> None:
    assert issubclass(Refused, Permanent)
    assert issubclass(Permanent, GpufleetError)
