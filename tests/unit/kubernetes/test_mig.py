"""A node gets another MIG layout: what is done, in which order, and when it is given up."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.builders import MINUTE, NOW, instance

from gpufleet.clusters.kubernetes.mig.layouts import CONFIG_MAP, FILE, Layout, config_map, with_layouts
from gpufleet.clusters.kubernetes.mig.machine import (
    STUCK_AFTER,
    VERIFY_WITHIN,
    Change,
    Cordon,
    Done,
    Drain,
    Failed,
    Holder,
    Label,
    NodeSeen,
    Note,
    Publish,
    Step,
    Uncordon,
    Waiting,
    next_step,
    scope,
)
from gpufleet.clusters.kubernetes.mig.patches import change_of, node_patch
from gpufleet.errors import Refused
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import MigRemake

H100 = gpu_model("H100-80")


def layout(*gpus: str) -> Layout:
    """By GPU: `1g.10gb@0 1g.10gb@1`, or nothing for a whole one."""
    return Layout.of(H100, [[instance(text) for text in gpu.split()] for gpu in gpus])


WHOLE = layout("", "")
CUT = layout("3g.40gb@0 3g.40gb@4", "")
RECUT = layout("1g.10gb@0 1g.10gb@1", "")
POD = Holder("p", "gpufleet-vision", frozenset({0}))
ELSEWHERE = Holder("q", "gpufleet-vision", frozenset({1}))


@dataclass
class Node:
    """A node with a MIG manager that behaves as NVIDIA's does: slow, blind to pods, saying its old word at first."""

    now_has: Layout = WHOLE
    capability: int = 9
    strategy: str = "mixed"
    unschedulable: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Layout] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    slow: list[str] = field(default_factory=lambda: ["pending", "pending", "success", "success"])
    left: list[str] = field(default_factory=list)
    remake: MigRemake = MigRemake.EMPTY_GPU

    def seen(self) -> NodeSeen:
        state = self.labels.get("nvidia.com/mig.config.state", "success")
        offers = {} if state == "pending" else self.now_has.resources(single=self.strategy == "single")
        return NodeSeen(
            "n0", self.capability, self.strategy, self.unschedulable, self.labels.get("nvidia.com/mig.config", ""),
            state, offers, self.now_has, self.holders, frozenset(self.known), change_of(self.annotations), self.remake,
        )  # fmt: skip

    def do(self, step: Step, wanted: Layout) -> None:
        if isinstance(step, Publish):
            self.known[step.layout.name] = step.layout
        if isinstance(step, Drain):
            self.holders = tuple(h for h in self.holders if h not in step.pods)
        if isinstance(step, Label):
            assert not [h for h in self.holders if h.gpus is None or h.gpus & scope(wanted, self.seen())]
            assert self.unschedulable, "while pods could still come"
            self.left = list(self.slow)
        if patch := node_patch(step):
            self._patch(patch)

    def _patch(self, patch: dict[str, Any]) -> None:
        self.unschedulable = bool(patch.get("spec", {"unschedulable": self.unschedulable})["unschedulable"])
        self.labels.update(patch["metadata"].get("labels", {}))
        self.annotations.update(patch["metadata"].get("annotations", {}))

    def pass_a_minute(self) -> None:
        if self.left:
            self.labels["nvidia.com/mig.config.state"] = self.left.pop(0)
            if self.labels["nvidia.com/mig.config.state"] == "success" and len(self.left) <= 1:
                self.now_has = self.known[self.labels["nvidia.com/mig.config"]]


def play(node: Node, wanted: Layout, minutes: int = 60) -> list[str]:
    """What was done until nothing is left to do; every step is repeated once, as after a kill."""
    told: list[str] = []
    for minute in range(minutes):
        now = NOW + minute * MINUTE
        for _ in range(2):
            step = next_step(wanted, node.seen(), now)
            node.do(step, wanted)
            if type(step).__name__ not in told[-1:]:
                told.append(type(step).__name__)
            if isinstance(step, Done | Failed):
                return told
        node.pass_a_minute()
    return told


def test_an_empty_node_is_cordoned_labelled_verified_and_opened() -> None:
    node = Node()
    assert play(node, CUT) == ["Cordon", "Publish", "Label", "Waiting", "Note", "Uncordon", "Done"]
    assert node.now_has == CUT and not node.unschedulable
    assert change_of(node.annotations) is None


def test_pods_on_the_gpus_that_change_leave_first_and_others_stay() -> None:
    node = Node(holders=(POD, ELSEWHERE))
    assert "Drain" in play(node, CUT)
    assert node.holders == (ELSEWHERE,)


def test_a_pod_of_which_nobody_told_the_gpu_may_be_on_any() -> None:
    node = Node(holders=(Holder("p", "gpufleet-vision"),))
    assert "Drain" in play(node, CUT)
    assert node.holders == ()


def test_a_change_of_mode_on_ampere_empties_the_node_and_a_recut_does_not() -> None:
    switched = Node(holders=(POD, ELSEWHERE), capability=8)
    play(switched, CUT)
    assert switched.holders == ()
    recut = Node(now_has=CUT, holders=(POD, ELSEWHERE), capability=8)
    play(recut, RECUT)
    assert recut.holders == (ELSEWHERE,)


def test_a_node_that_a_person_had_cordoned_stays_cordoned() -> None:
    node = Node(unschedulable=True)
    assert play(node, CUT)[-1] == "Done"
    assert node.unschedulable


def test_a_node_that_has_the_layout_is_left_alone() -> None:
    assert play(Node(now_has=CUT), CUT) == ["Done"]


def test_another_layout_overtakes_one_that_was_not_begun_and_who_cordoned_stays_known() -> None:
    node = Node(holders=(POD,))
    node.do(next_step(CUT, node.seen(), NOW), CUT)
    assert play(node, RECUT)[-1] == "Done"
    assert node.now_has == RECUT and not node.unschedulable


LABELLED = Change(CUT.name, cordoned_by_us=True, labelled_at=NOW)
AT_WORK = replace(
    Node().seen(), cordoned=True, config=CUT.name, state="pending", offers={}, change=LABELLED,
    known_configs=frozenset({CUT.name}),
)  # fmt: skip
VERIFYING = replace(AT_WORK, state="success", change=replace(LABELLED, succeeded_at=NOW))

ENDS = {
    "the manager works": (AT_WORK, 5 * MINUTE, Waiting, "is pending; its GPUs are away meanwhile"),
    "the node reboots": (replace(AT_WORK, state="rebooting"), 5 * MINUTE, Waiting, "is rebooting"),
    "the manager is stuck": (AT_WORK, STUCK_AFTER + MINUTE, Failed, "is 'pending' for 31 min: one of its operands"),
    "no manager is there": (replace(AT_WORK, state=""), STUCK_AFTER + MINUTE, Failed, "is 'silent' for 31 min"),
    "an instance was in use": (replace(AT_WORK, state="failed"), MINUTE, Failed, "an instance was in use"),
    "a person set another label": (replace(AT_WORK, config="all-disabled"), MINUTE, Failed, "set the MIG label of node n0"),
    "the plugin is not back": (VERIFYING, MINUTE, Waiting, "has not shown the new layout yet"),
    "the plugin shows something else": (
        replace(VERIFYING, offers={"nvidia.com/gpu": 2}),
        VERIFY_WITHIN + MINUTE,
        Failed,
        "node n0 offers 2 nvidia.com/gpu where 1 nvidia.com/gpu, 2 nvidia.com/mig-3g.40gb should be",
    ),
    "an old success does not count": (replace(AT_WORK, state="success"), timedelta(seconds=5), Waiting, "not begun"),
    "an earlier change is still at work": (replace(AT_WORK, change=None), MINUTE, Waiting, "still at an earlier MIG change"),
    "the node is never remade": (replace(AT_WORK, remake=MigRemake.NEVER), MINUTE, Failed, "is never remade"),
    "the layout is for another machine": (replace(AT_WORK, now_has=layout("")), MINUTE, Failed, "has 1 GPUs; the layout"),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "after", "kind", "why"), ENDS.values(), ids=ENDS)
def test_while_it_waits_and_when_it_fails(seen: NodeSeen, after: timedelta, kind: type[Any], why: str) -> None:
    step = next_step(CUT, seen, NOW + after)
    assert isinstance(step, kind)
    assert why in step.why  # type: ignore[attr-defined]  # both kinds have one


layouts = some.lists(
    some.sampled_from(["", "3g.40gb@0 3g.40gb@4", "1g.10gb@0 2g.20gb@2", "7g.80gb@0"]), min_size=2, max_size=2
).map(lambda gpus: layout(*gpus))
held = some.builds(Holder, some.text(min_size=1), some.just("ns"), some.none() | some.frozensets(some.integers(0, 1)))


@given(
    layouts,
    layouts,
    some.lists(held, max_size=3),
    some.sampled_from([8, 9]),
    some.booleans(),
    some.integers(0, 28) | some.just(40),
)
def test_whatever_the_node_holds_it_ends_and_no_gpu_in_use_is_touched(
    has: Layout, wants: Layout, holders: list[Holder], capability: int, cordoned: bool, slow: int
) -> None:
    states = [*["pending"] * slow, "success", "success"]
    node = Node(has, capability, unschedulable=cordoned, holders=tuple(holders), slow=states)
    end = play(node, wants, minutes=90)[-1]
    assert end == ("Done" if slow <= 30 or has == wants else "Failed")
    assert node.unschedulable == (cordoned or end == "Failed")


def test_the_file_names_layouts_by_their_content_and_keeps_those_of_others() -> None:
    found = with_layouts(
        {"version": "v1", "mig-configs": {"all-disabled": [{"devices": "all", "mig-enabled": False}]}}, [CUT]
    )
    assert found["mig-configs"]["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
    assert found["mig-configs"][CUT.name] == [
        {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.40gb": 2}},
        {"devices": [1], "mig-enabled": False},
    ]
    assert CUT.name == layout("3g.40gb@4 3g.40gb@0", "").name != RECUT.name
    file = config_map(found, "gpu-operator")
    assert file["metadata"]["name"] == CONFIG_MAP and json.loads(file["data"][FILE]) == found


def test_layouts_that_cannot_be_are_refused() -> None:
    with pytest.raises(Refused, match=r"GPU 0 cannot be cut like that: 3g.40gb may not start at 1"):
        layout("3g.40gb@1")
    with pytest.raises(Refused, match="all GPUs of a node have the same profile"):
        CUT.resources(single=True)
    assert layout("1g.10gb@0 1g.10gb@1", "1g.10gb@0").resources(single=True) == {"nvidia.com/gpu": 3}


def test_what_the_node_remembers_is_read_back_and_rubbish_is_nothing() -> None:
    change = Change("c", cordoned_by_us=True, labelled_at=NOW, succeeded_at=None)
    patch = node_patch(Note(change))
    assert patch is not None and change_of(patch["metadata"]["annotations"]) == change
    for rubbish in (
        None,
        {},
        {"gpufleet.io/mig-change": "x"},
        {"gpufleet.io/mig-change": "{}"},
        {"gpufleet.io/mig-change": 3},
    ):
        assert change_of(rubbish) is None
    assert node_patch(Cordon(change)) and node_patch(Uncordon(open=False)) == {
        "metadata": {"annotations": {"gpufleet.io/mig-change": None}}
    }
