"""Every gate of a waiting job: which lets it through, which does not, and with what numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.builders import HOUR, NOW, node, nodes, on, pending, pods, queue, running, snapshot

from gpufleet.model.hardware import NodeState
from gpufleet.model.plan import Reason
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.workload import Needs
from gpufleet.scheduling import explain
from gpufleet.scheduling.checks import LEVEL_OF
from gpufleet.units import mib

FULL = tuple(range(8))
KEPT: dict[str, Any] = {"preemptible": False}


@dataclass(frozen=True)
class Gate:
    """Facts around the waiting job `p`, the gates that must stop it (no others), and words of some gates."""

    facts: Sequence[Any]
    stops: Sequence[str]
    says: Mapping[str, Sequence[str]]


GATES = {
    "a limit": Gate(
        [node(), queue("a", 0, limit=4), running("r", on("n1", 0, 1, 2), **KEPT), pending("p", pods(gpus=4))],
        ["quota-limit"],
        {"quota-limit": ["queue a", "4 GPUs", "uses 3", "asks 4"], "free": ["4 GPUs are needed, 5 are free"]},
    ),
    "the limit of a parent": Gate(
        [node(), queue("top", 0, limit=2), queue("a", 0, parent="top"), pending("p", pods(gpus=4))],
        ["quota-limit"],
        {"quota-limit": ["queue top", "2 GPUs"]},
    ),
    "a guarantee": Gate(
        [node(), queue("a", 2), running("r", on("n1", 0), **KEPT), pending("p", pods(gpus=2), preemptible=False)],
        ["quota-guarantee"],
        {"quota-guarantee": ["deserves 2 GPUs", "holds 1", "asks 2"], "quota-limit": ["no", "limit"]},
    ),
    "a model that is not there": Gate(
        [node(), pending("p", models=("B200-180",))],
        ["gpu-type", "free"],
        {"gpu-type": ["B200-180"]},
    ),
    "a model of which there are too few": Gate(
        [node("h"), node("t", model="T4-16", gpus=2), pending("p", pods(gpus=4), models=("T4-16",))],
        ["gpu-type", "size", "free"],
        {"gpu-type": ["1 of 2 nodes", "T4-16"], "size": ["4", "2"]},
    ),
    "memory that no card has": Gate(
        [node(), pending("p", needs=Needs(mib(100)))],
        ["memory", "free"],
        {"memory": ["80"]},
    ),
    "nobody offers shares": Gate(
        [node(sharing=False), pending("p", pods(share="500/20"))],
        ["sharing", "free"],
        {"sharing": ["no shares"]},
    ),
    "no spot capacity": Gate(
        [node("o"), node("s", gpus=2, capacity="spot"), pending("p", pods(gpus=4), capacity=["spot"])],
        ["capacity-type", "size", "free"],
        {"capacity-type": ["1 of 2 nodes", "spot"]},
    ),
    "a node out of service": Gate(
        [node("n0", state=NodeState.CORDONED), node("n1", gpus=4), pending("p", pods(gpus=8))],
        ["healthy", "free"],
        {"healthy": ["of what is healthy and ready"]},
    ),
    "CPU of the hosts": Gate(
        [node(cpu=96.0), pending("first", pods(cpu=60), priority=90), pending("p", pods(cpu=60))],
        ["host-resources"],
        {"host-resources": ["CPU or memory of their hosts is used up"], "free": ["1 GPUs are needed, 7 are free"]},
    ),
    "too little is free": Gate(
        [node(), running("r", on("n1", *range(6)), **KEPT), pending("p", pods(gpus=4))],
        ["free"],
        {"free": ["4", "2"], "gpu-type": ["1 of 1 nodes"], "quota-guarantee": ["8 GPUs; it uses 6"]},
    ),
    "what is free lies apart": Gate(
        [
            *nodes(2),
            running("r", on("n0", *range(4)), **KEPT),
            running("k", on("n1", *range(4)), **KEPT),
            pending("p", pods(gpus=8)),
        ],
        ["fragmentation"],
        {"fragmentation": ["at most 4 on one node"], "free": ["8 GPUs are needed, 8 are free"]},
    ),
    "a level that must hold all pods": Gate(
        [node("n0", path="s1/l1"), node("n1", path="s1/l2"), running("r", on("n0", 0), **KEPT),
         node("n2", path="s1/l1"), running("k", on("n2", 0), **KEPT), pending("p", pods(2, gpus=4), required="node"),
         running("z", on("n1", 0), **KEPT)],
        ["topology"],
        {"topology": ["node"]},
    ),
    "a reservation of somebody else": Gate(
        [node(), running("r", on("n1", *range(6)), runtime=6 * HOUR, **KEPT), pending("big", pods(gpus=8), age=3 * HOUR),
         pending("p", pods(gpus=2))],
        ["free", "turn"],
        {"turn": ["big"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_the_gates_that_stop_a_job(gate: Gate) -> None:
    found = explain(snapshot(*gate.facts), SchedulingPolicy(), NOW, "p")
    told = {c.level: c for c in found.checks}
    assert [c.level for c in found.checks if not c.ok] == list(gate.stops), [c for c in found.checks if not c.ok]
    for level, words in gate.says.items():
        assert all(word in told[level].detail for word in words), told[level].detail


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_the_gate_of_the_reason_is_among_them_with_its_words(gate: Gate) -> None:
    found = explain(snapshot(*gate.facts), SchedulingPolicy(), NOW, "p")
    assert found.reason is not None
    (blamed,) = [c for c in found.checks if c.level == LEVEL_OF[found.reason]]
    assert (blamed.ok, blamed.detail) == (False, found.detail)


def test_every_reason_has_a_gate_and_they_come_in_one_order() -> None:
    assert set(LEVEL_OF) == set(Reason)
    fleet = snapshot(node(), running("r", on("n1", *FULL), **KEPT), pending("p", pods(share="500/20")))
    levels = [c.level for c in explain(fleet, SchedulingPolicy(), NOW, "p").checks]
    assert levels == [name for name in LEVEL_OF.values() if name in levels] and "sharing" in levels


def test_who_goes_first_is_named() -> None:
    fleet = snapshot(
        node(), running("r", on("n1", *FULL), **KEPT), *(pending(f"e{i}", priority=80) for i in range(5)), pending("p")
    )
    turn = next(c for c in explain(fleet, SchedulingPolicy(), NOW, "p").checks if c.level == "turn")
    assert turn.ok and "place 6" in turn.detail and "e0, e1, e2 and 2 more" in turn.detail
