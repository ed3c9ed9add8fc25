"""How fast the engine decides. Figures are processor seconds; each is also told as a multiple of a fixed piece of work.

The fixed work is plain Python and small numpy calls, the two things the engine spends its time on, so the multiple says
the same on a slower or a busier machine. `ranges.yaml` bounds the multiples.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
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
    """About a fifth of a second of dictionary, tuple and small-array work."""
    found, rows = 0, np.arange(64)
    table: dict[tuple[int, int], int] = {}
    for i in range(60_000):
        key = i % 977, i % 13
        table[key] = table.get(key, 0) + len(key)
        if i % 4 == 0:
            found += int((rows * i).max())
    return found


def measure() -> Iterator[tuple[str, float]]:
    """Every figure by name, in seconds, as it is found."""
    unit = min(seconds(fixed_work) for _ in range(3))
    yield "fixed_work", unit
    small, large = decisions(1), decisions(8)
    yield "decision_1213_nodes", small
    yield "decision_9704_nodes", large
    yield "slice_decision_10000_gpus", slice_decision()
    yield "gang_declared_unschedulable", gang_declared_unschedulable()
    line = half_busy(1250, 10_000, 200)
    yield "pass_10000_gpus_10000_jobs", min(seconds(lambda: run_pass(line, POLICY, NOW)) for _ in range(2))
    owed = borrowed(840, 50, 256)
    yield "reclaim_for_256_gpus", min(seconds(lambda: run_pass(owed, POLICY, NOW)) for _ in range(2))


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
    """Seconds per MIG slice placed on 1,250 nodes of eight GPUs, small and large in turn, best of two."""
    fleet = nodes(1250)
    names = [n.name for n in fleet]
    kinds = [PodSet(1, Slice(profile=p)) for p in ("1g.10gb", "2g.20gb", "3g.40gb", "1g.20gb")]
    best = float("inf")
    for _ in range(2):
        ledger, topology = Ledger(fleet), Topology(LEVELS, fleet)
        pool = pool_of(ledger, topology, names)

        def fill(count: int, ledger: Ledger = ledger, pool: Any = pool) -> None:
            for i in range(count):
                kind = kinds[i % 4]
                found = pick(pool, kind, JOB)
                assert found is not None
                take(ledger, ledger.books[found.node], kind, 0, JOB.id)

        fill(400)
        best = min(best, seconds(lambda: fill(10_000)) / 10_000)
    return best
