"""Two hundred decisions of one golden arrival, one by one: which node, which GPU.

Curves agree even where two decisions are exchanged; a decision does not. FGD is worked out here a second time, in plain
loops from its definition (USENIX ATC'23; docs/benchmarks.md, section 3) and with nothing of simulation/openb/fgd.py, so
the test fails when either side rounds elsewhere, sums in another order, takes another GPU of equal ones, or breaks a tie
otherwise. Ours is held against a stored list: it fails when any change of the engine places one pod differently. Such a
change may be meant; then measure again (`make bench`) and store the new list with the words of the failing test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpufleet.simulation.openb.cluster import Cluster
from gpufleet.simulation.openb.engine import Engine
from gpufleet.simulation.openb.fgd import Fgd
from gpufleet.simulation.openb.replay import by_rule
from gpufleet.simulation.openb.trace import Machine, Request, Run, read_machines, read_requests, read_runs

DATA = Path(__file__).parents[3] / "benchmarks" / "data"
OURS = Path(__file__).with_name("golden_ours.csv")
DECISIONS = 200
Decision = tuple[int, tuple[int, ...]]
"""Node (position in the list sorted by name) and GPUs."""


@pytest.fixture(scope="module")
def machines() -> Sequence[Machine]:
    return read_machines(DATA / "openb" / "openb_node_list_gpu_node.csv")


@pytest.fixture(scope="module")
def requests() -> Sequence[Request]:
    return read_requests(DATA / "openb" / "openb_pod_list_default.csv.gz")


@pytest.fixture(scope="module")
def run(machines: Sequence[Machine], requests: Sequence[Request]) -> Run:
    """Seed 42 of the default workload."""
    golden = DATA / "openb_golden"
    order, ties = golden / "default_pod_order.csv.gz", golden / "default_node_prefix.csv.gz"
    return read_runs(order, ties, 1, len(requests), len(machines))[0]


# ---------------------------------------------------------------- FGD once more, in plain loops

Kind = tuple[int, int, int, tuple[str, ...], float]
"""Cores in thousandths, thousandths of a GPU, GPUs, models, share of the typical pods."""


class Plain:
    """The definition and nothing else: free cores, memory and GPUs in lists, every score worked out anew."""

    def __init__(self, machines: Sequence[Machine], requests: Sequence[Request], ties: Sequence[int]) -> None:
        self.machines, self.ties = machines, ties
        self.cpu = [m.cpu_milli for m in machines]
        self.memory = [m.memory_mib for m in machines]
        self.gpus = [[1000] * m.gpus for m in machines]
        self.kinds = typical_pods(requests)
        self.known: dict[tuple[int, tuple[int, ...], str], float] = {}

    def decide(self, pod: Request) -> Decision | None:
        """The best score, of equal ones the lowest rank; then the books."""
        best: tuple[int, int, int, tuple[int, ...]] | None = None
        for node in range(len(self.machines)):
            if (told := self.score(node, pod)) is not None:
                ranked = (-told[0], self.ties[node], node, told[1])
                best = ranked if best is None else min(best, ranked)
        if best is None:
            return None
        _, _, node, gpus = best
        self.cpu[node] -= pod.cpu_milli
        self.memory[node] -= pod.memory_mib
        for gpu in gpus:
            self.gpus[node][gpu] -= pod.milli
        return node, gpus

    def score(self, node: int, pod: Request) -> tuple[int, tuple[int, ...]] | None:
        """Score and GPUs, or None where the pod does not fit: for a share the first of its best GPUs."""
        model, left = self.machines[node].model, self.gpus[node]
        room = [i for i, free in enumerate(left) if free >= pod.milli] if pod.gpus else []
        barred = bool(pod.gpus and pod.models and model not in pod.models)
        if barred or self.cpu[node] < pod.cpu_milli or self.memory[node] < pod.memory_mib or len(room) < pod.gpus:
            return None
        share = pod.gpus == 1 and pod.milli < 1000
        choices = [(i,) for i in room] if share else [tuple(i for i in room if left[i] == 1000)[: pod.gpus]]
        before, found = self.fragment(self.cpu[node], left, model), []
        for choice in choices:
            after = [free - pod.milli if i in choice else free for i, free in enumerate(left)]
            gain = before - self.fragment(self.cpu[node] - pod.cpu_milli, after, model)
            found.append((math.floor(100 / (1 + math.exp(-gain / 1000))), choice))
        top = max(score for score, _ in found)
        return next(f for f in found if f[0] == top)

    def fragment(self, cpu: int, gpus: list[int], model: str) -> float:
        """F: the free GPU that the typical next pod cannot use, summed in the published program's six heaps."""
        key = cpu, tuple(gpus), model
        if key not in self.known:
            heaps = dict.fromkeys(("q1", "q2", "q4", "xl", "xr", "na"), 0.0)
            for kind in self.kinds:
                heap, lost = lost_to(kind, cpu, gpus, model)
                heaps[heap] += kind[4] * lost
            self.known[key] = sum(heaps.values())
        return self.known[key]


def lost_to(kind: Kind, cpu: int, gpus: list[int], model: str) -> tuple[str, int]:
    """Thousandths of free GPU that this kind cannot use, and the heap they are counted on."""
    cores, milli, count, models, _ = kind
    free, hosted = sum(gpus), cpu >= cores
    if count == 0:
        return ("xl" if hosted else "xr"), free
    if models and model not in models:
        return "na", free
    enough = sum(g >= milli for g in gpus) >= count
    if enough and hosted:
        return "q2", sum(g for g in gpus if g < milli)
    if enough:
        return "q4", free
    return ("q2" if hosted else "q1"), free


def typical_pods(requests: Sequence[Request]) -> list[Kind]:
    """The most frequent kinds that make up 95 % of the pods."""
    counts = Counter((r.cpu_milli, r.milli, r.gpus, r.models) for r in requests)
    kinds, covered = [], 0
    for kind, count in sorted(counts.items(), key=lambda c: (-c[1], *(-part for part in c[0][:3]), c[0][3])):
        if covered >= 0.95 * len(requests):
            break
        kinds.append((kind, count))
        covered += count
    whole = covered / len(requests)
    return [(*kind, count / len(requests) / whole) for kind, count in kinds]


def replayed(machines: Sequence[Machine], requests: Sequence[Request], run: Run) -> list[Decision | None]:
    """What the product's replay of FGD decides."""
    cluster = Cluster(machines, run.ties)
    place = by_rule(cluster, Fgd(cluster, requests))
    return [place(requests[index]) for index in run.order[:DECISIONS]]


def test_fgd_decides_as_its_definition_does(machines: Sequence[Machine], requests: Sequence[Request], run: Run) -> None:
    plain = Plain(machines, requests, run.ties)
    assert replayed(machines, requests, run) == [plain.decide(requests[i]) for i in run.order[:DECISIONS]]


def test_other_ties_are_other_decisions(machines: Sequence[Machine], requests: Sequence[Request], run: Run) -> None:
    """The comparison above can fail: most decisions of an empty cluster hang on ties, and all of them would move."""
    turned = Run(run.seed, run.order, tuple(len(run.ties) - rank for rank in run.ties))
    same = [
        a == b for a, b in zip(replayed(machines, requests, run), replayed(machines, requests, turned), strict=True)
    ]
    assert sum(same) < DECISIONS / 2


# ---------------------------------------------------------------- ours, as stored


def test_ours_decides_as_it_did(machines: Sequence[Machine], requests: Sequence[Request], run: Run) -> None:
    names = {machine.name: position for position, machine in enumerate(machines)}
    engine = Engine(machines, requests)
    lines = []
    for index in run.order[:DECISIONS]:
        place = engine.place(requests[index])
        lines.append("-" if place is None else ",".join(map(str, (names[place.node], *place.devices))))
    assert lines == OURS.read_text().splitlines()[1:]
