"""How fast the engine decides. Figures are processor seconds; each is also told as a multiple of a fixed piece of work.

The fixed work is plain Python and small numpy calls, the two things the engine spends its time on, so the multiple says
the same on a slower or a busier machine. `ranges.yaml` bounds the multiples.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fleets import LEVELS, NOW, borrowed, half_busy, nodes, packed
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.workload import PodSet, Slice
from gpufleet.placement import Ledger, Topology
from gpufleet.placement.demand import take
from gpufleet.placement.pool import pool_of
from gpufleet.placement.worth import pick
from gpufleet.scheduling import run_pass
from gpufleet.simulation.openb.engine import JOB, Engine
from gpufleet.simulation.openb.trace import Machine, read_machines, read_requests

OPENB = Path(__file__).parent / "data" / "openb"
POLICY = SchedulingPolicy()


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of one call."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def fixed_work() -> int:
    """Less than a tenth of a second of dictionary, tuple and small-array work."""
    found, rows = 0, np.arange(64)
    table: dict[tuple[int, int], int] = {}
    for i in range(60_000):
        key = i % 977, i % 13
        table[key] = table.get(key, 0) + len(key)
        if i % 4 == 0:
            found += int((rows * i).max())
    return found


def unit() -> float:
    """Seconds of the fixed work, the best of three."""
    return min(seconds(fixed_work) for _ in range(3))


@dataclass(frozen=True, slots=True)
class Timed:
    """One figure: processor seconds, and how many times the fixed work that is.

    The fixed work is done before and after, for the machine's speed swings within a run.
    """

    name: str
    seconds: float
    times: float


def measure(repeats: int) -> Iterator[Timed]:
    """Every figure as it is found: the best of so many repeats."""
    line, owed = half_busy(1250, 10_000, 200), borrowed(840, 50, 256)
    before = unit()
    works: dict[str, Callable[[], float]] = {
        "decision_1213_nodes": lambda: decisions(1),
        "decision_9704_nodes": lambda: decisions(8),
        "slice_decision_10000_gpus": slice_decision,
        "gang_declared_unschedulable": gang_declared_unschedulable,
        "pass_10000_gpus_10000_jobs": lambda: seconds(lambda: run_pass(line, POLICY, NOW)),
        "reclaim_for_256_gpus": lambda: seconds(lambda: run_pass(owed, POLICY, NOW)),
    }
    for name, work in works.items():
        found = min(work() for _ in range(1 if name.startswith("decision") else repeats))
        after = unit()
        yield Timed(name, found, 2 * found / (before + after))
        before = after


def gang_declared_unschedulable() -> float:
    """What an 80-GPU gang that cannot be placed on 500 nodes adds to a pass, its reason included."""
    gang = packed(500)
    alone = replace(gang, pending=())
    with_it = min(seconds(lambda: run_pass(gang, POLICY, NOW)) for _ in range(9))
    return with_it - min(seconds(lambda: run_pass(alone, POLICY, NOW)) for _ in range(9))


def decisions(copies: int) -> float:
    """Seconds per decision over the openb default workload, on so many copies of its cluster and of its pods."""
    machines = [
        Machine(f"{m.name}-{i}", m.cpu_milli, m.memory_mib, m.gpus, m.model)
        for m in read_machines(OPENB / "openb_node_list_gpu_node.csv")
        for i in range(copies)
    ]
    requests = read_requests(OPENB / "openb_pod_list_default.csv.gz") * copies
    engine = Engine(machines, requests)
    return seconds(lambda: [engine.place(r) for r in requests]) / len(requests)


def slice_decision() -> float:
    """Seconds per MIG slice placed on 1,250 nodes of eight GPUs, small and large in turn."""
    fleet = nodes(1250)
    names = [n.name for n in fleet]
    kinds = [PodSet(1, Slice(profile=p)) for p in ("1g.10gb", "2g.20gb", "3g.40gb", "1g.20gb")]
    ledger, topology = Ledger(fleet), Topology(LEVELS, fleet)
    pool = pool_of(ledger, topology, names)

    def fill(count: int) -> None:
        for i in range(count):
            kind = kinds[i % 4]
            found = pick(pool, kind, JOB)
            assert found is not None
            take(ledger, ledger.books[found.node], kind, 0, JOB.id)

    fill(400)
    return seconds(lambda: fill(10_000)) / 10_000
