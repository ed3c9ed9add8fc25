"""Stories about where things go: whole GPUs, slices, shares, gangs, neighbours."""

from __future__ import annotations

import pytest
from tests.builders import node, nodes, on, pending, pods, queue, running
from tests.scenarios.stories import Story, tell

from gpufleet.model.capacity import CapacityType
from gpufleet.model.hardware import Link, MigRemake, NodeState

TWO_LEAVES = [node("a1", path="s1/l1"), node("a2", path="s1/l1"), node("b1", path="s1/l2"), node("b2", path="s1/l2")]
FULL = tuple(range(8))

WHOLE = {
    "seven single jobs share one node and leave the others whole": Story(
        [*nodes(3), *(pending(f"p{i}") for i in range(7))],
        starts=[f"p{i}" for i in range(7)],
        on={f"p{i}": ["n0"] for i in range(7)},
    ),
    "two GPUs go into the hole of two, not into the hole of three": Story(
        [*nodes(2), running("r0", on("n0", *range(5))), running("r1", on("n1", *range(6))), pending("p", pods(gpus=2))],
        on={"p": ["n1"]},
    ),
    "a pair of bridged GPUs is taken whole": Story(
        [node(model="H100NVL-94"), running("r", on("n1", 0)), pending("p", pods(gpus=2))],
        gpus={"p": [[2, 3], [4, 5], [6, 7]]},
    ),
    "a single GPU takes the widow of a broken pair": Story(
        [node(model="H100NVL-94"), running("r", on("n1", 3)), pending("p")], gpus={"p": [[2]]}
    ),
    "four GPUs prefer the switch to PCIe": Story(
        [node("pc", link=Link.PCIE), node("sw"), pending("p", pods(gpus=4))], on={"p": ["sw"]}
    ),
    "a service whose choice is open stays off spot": Story(
        [node("cheap", capacity=CapacityType.SPOT, gpus=4), node("own"), pending("p", pods(gpus=4), kind="inference")],
        on={"p": ["own"]},
    ),
    "a card that is cut for nobody is left alone while uncut ones are free": Story(
        [node(gpus=2, layout={0: ["1g.10gb@6"]}), pending("p")], gpus={"p": [[1]]}, remakes=[]
    ),
    "nodes on their way out and nodes a job backs off from take nothing": Story(
        [
            node("cord", state=NodeState.CORDONED),
            node("lost", state=NodeState.LOST),
            node("bad"),
            node("ok"),
            pending("p", not_on=["bad"]),
        ],
        on={"p": ["ok"]},
    ),
}

ENGINES = {
    "slices with a media engine go one to a card before large ones fill the cards": Story(
        [node(gpus=3), pending("p", pods(3, profile="1g.10gb+me"), pods(2, profile="3g.40gb"))], starts=["p"]
    ),
}

ASIDE = {
    "only the pod that is in the way moves, and no card gets a second media engine": Story(
        [
            node("n", model="H200-141", gpus=2),
            running("r", on("n", slices=["0:4g.71gb@0"]), on("n", slices=["1:1g.18gb+me@4"])),
            pending("p"),
        ],
        starts=["p"],
        moves=["r"],
    ),
    "pods that step aside are named with the nodes they stand on": Story(
        [
            *(node(f"n{i}", model="A100-40", gpus=1) for i in (1, 2, 3)),
            running("r", on("n1", slices=["0:1g.5gb@0"]), on("n1", slices=["0:1g.10gb@2"]), on("n2", slices=["0:1g.5gb@0"])),
            running("fixed", on("n3", slices=["0:1g.5gb@0"]), preemptible=False),
            pending("p", pods(2, profile="4g.20gb")),
        ],
        starts=["p"],
        moves=["r"],
    ),
}  # fmt: skip

MIXED = {
    "a gang never stands on two GPU models by itself": Story(
        [node("h", gpus=2), node("a", model="A100-80", gpus=2), pending("p", pods(3, gpus=1))],
        starts=[],
    ),
    "a gang that asked for it may": Story(
        [node("h", gpus=2), node("a", model="A100-80", gpus=2), pending("p", pods(3, gpus=1), mix_models=True)],
        starts=["p"],
        on={"p": ["a", "h"]},
    ),
    "one model is still better where it has room": Story(
        [node("h", gpus=4), node("a", model="A100-80", gpus=2), pending("p", pods(3, gpus=1), mix_models=True)],
        on={"p": ["h"]},
    ),
    "each model's limit holds for a mixed gang": Story(
        [
            node("h", gpus=2),
            node("a", model="A100-80", gpus=2),
            queue("a", 4, limit={"*": 4, "A100-80": 0}),
            pending("p", pods(3, gpus=1), mix_models=True),
        ],
        starts=[],
    ),
}

SPREAD = {
    "replicas that must not go down together each get a node of their own": Story(
        [*nodes(3), pending("p", pods(3, gpus=1), kind="inference", spread="node")], on={"p": ["n0", "n1", "n2"]}
    ),
    "replicas spread over leaves, two where there is no third leaf": Story(
        [*TWO_LEAVES, pending("p", pods(2, gpus=2), kind="inference", spread="leaf")], on={"p": ["a1", "b1"]}
    ),
    "more replicas than nodes go round again": Story(
        [*nodes(2), pending("p", pods(4, gpus=4), kind="inference", spread="node")], on={"p": ["n0", "n1"]}
    ),
    "spread slices stand on different nodes though one card would hold them": Story(
        [*nodes(2), pending("p", pods(2, profile="1g.10gb"), kind="inference", spread="node")], on={"p": ["n0", "n1"]}
    ),
    "spread over nodes but bound to one leaf": Story(
        [*TWO_LEAVES, pending("p", pods(2, gpus=1), spread="node", required="leaf")], on={"p": ["a1", "a2"]}
    ),
    "what cannot be spread evenly still starts": Story(
        [node("n0"), node("n1", gpus=1), pending("p", pods(4, gpus=1), spread="node")], on={"p": ["n0", "n1"]}
    ),
}

SLICED = {
    "the first small slice goes to the right end": Story(
        [node(gpus=1), pending("p", pods(profile="1g.10gb"))], slices={"p": "1g.10gb@6"}
    ),
    "a 3g goes to the right half so that a 4g stays possible": Story(
        [node(gpus=1), pending("a3", pods(profile="3g.40gb")), pending("b4", pods(profile="4g.40gb"))],
        starts=["a3", "b4"],
        slices={"a3": "3g.40gb@4", "b4": "4g.40gb@0"},
    ),
    "seventeen GiB do not go into a slice called 18gb that reports sixteen": Story(
        [node(model="H200-141", gpus=1), pending("p", pods(slice_gib=17))], slices={"p": "1g.35gb@6"}
    ),
    "seven replicas fill one card": Story([node(), pending("p", pods(7, profile="1g.10gb"))], cards={"p": 1}),
    "a free slice that fits is used as it is": Story(
        [node(gpus=2, layout={1: ["1g.10gb@6"]}), pending("p", pods(profile="1g.10gb"))], gpus={"p": [[1]]}, remakes=[]
    ),
    "a node that remakes empty GPUs only cuts the other card": Story(
        [
            node(gpus=2, mig=MigRemake.EMPTY_GPU),
            running("r", on("n1", slices=["0:1g.10gb@6"]), preemptible=False),
            pending("p", pods(profile="2g.20gb")),
        ],
        gpus={"p": [[1]]},
        remakes=["n1/1"],
    ),
    "a node that remakes only when it is empty cuts nothing while something runs": Story(
        [
            node(gpus=2, mig=MigRemake.EMPTY_NODE),
            running("r", on("n1", 0), preemptible=False),
            pending("p", pods(profile="2g.20gb")),
        ],
        starts=[],
        remakes=[],
    ),
    "a layout that never changes serves a small need from a larger slice": Story(
        [node(gpus=1, mig=MigRemake.NEVER, layout={0: ["3g.40gb@4"]}), pending("p", pods(slice_gib=9))],
        slices={"p": "3g.40gb@4"},
        remakes=[],
    ),
    "five of eight slices are free and a 3g still does not fit": Story(
        [
            node(gpus=1),
            *(running(f"r{s}", on("n1", slices=[f"0:1g.10gb@{s}"]), preemptible=False) for s in (0, 1, 5)),
            pending("p", pods(profile="3g.40gb")),
        ],
        waits={"p": "fragmented"},
    ),
    "a card and a slice of one job come from different cards": Story(
        [node(gpus=2), pending("p", pods(gpus=1), pods(profile="1g.10gb"))], starts=["p"], cards={"p": 2}
    ),
    "whole-card jobs and slices keep apart": Story(
        [node(gpus=1), queue("a", 2), pending("p", pods(gpus=1), pods(profile="1g.10gb"))], starts=[]
    ),
}

SHARED = {
    "three thirds rounded down fit, rounded up they do not": Story(
        [
            node("x", gpus=1),
            node("y", gpus=1),
            queue("a", 2),
            *(pending(f"down{i}", pods(share="333/4"), priority=90) for i in range(3)),
            *(pending(f"up{i}", pods(share="334/4")) for i in range(3)),
        ],
        starts=["down0", "down1", "down2", "up0", "up1"],
        waits={"up2": "not-enough"},
    ),
    "memory is shared too": Story([node(gpus=1), pending("p", pods(2, share="200/50"))], waits={"p": "too-large"}),
    "half a card goes beside the half in use": Story(
        [node(gpus=2), running("r", on("n1", shares=["0:500/20"])), pending("p", pods(share="500/20"))],
        gpus={"p": [[0]]},
    ),
    "two rests do not add up": Story(
        [
            node(gpus=2),
            *(running(f"r{i}", on("n1", shares=[f"{i}:600/20"]), preemptible=False) for i in (0, 1)),
            pending("p", pods(share="800/20")),
        ],
        waits={"p": "fragmented"},
    ),
    "a node without shares still serves the whole GPUs of a job that has both": Story(
        [node("closed", gpus=2, sharing=False), node("open", gpus=1), pending("p", pods(gpus=2), pods(share="500/2"))],
        starts=["p"],
        on={"p": ["closed", "open"]},
    ),
    "what is found out for a job of shares is not held against one that also asks for whole GPUs": Story(
        [
            node("closed", gpus=2, sharing=False),
            pending("p", pods(share="500/2")),
            pending("q", pods(gpus=1), pods(share="500/2"), min_members=1),
        ],
        starts=["q"],
        waits={"p": "sharing"},
    ),
    "a share needs a node that offers shares": Story(
        [
            node("closed", sharing=False),
            node("open", gpus=1),
            running("r", on("open", 0), preemptible=False),
            pending("p", pods(share="500/2")),
        ],
        waits={"p": "sharing"},
    ),
}

GANGS = {
    "of two gangs that each need all, one runs whole and the other holds nothing": Story(
        [*nodes(2, gpus=1), pending("first", pods(2), priority=60), pending("second", pods(2))],
        starts=["first"],
        waits={"second": "not-enough"},
    ),
    "unlike pods find the only way to fill two nodes": Story(
        [*nodes(2), pending("p", pods(gpus=2), pods(gpus=6), pods(gpus=3), pods(gpus=5))], starts=["p"]
    ),
    "a greedy order fails here, a search does not": Story(
        [node("n0", gpus=7), node("n1", gpus=7), pending("p", pods(2, gpus=3), pods(gpus=4), pods(2, gpus=2))],
        starts=["p"],
    ),
    "two singles leave the place for two together": Story(
        [
            node("n0", gpus=2),
            node("n1", gpus=1),
            node("n2", gpus=1),
            pending("pair", pods(2), priority=60),
            pending("two", pods(gpus=2)),
        ],
        starts=["pair", "two"],
        on={"two": ["n0"]},
    ),
    "an elastic gang starts with what fits from its minimum up": Story(
        [node(gpus=5), pending("p", pods(6), min_members=4)], starts=["p"], cards={"p": 5}
    ),
    "below its minimum an elastic gang waits": Story(
        [node(gpus=8), running("r", on("n1", 0, 1, 2, 3, 4), preemptible=False), pending("p", pods(6), min_members=4)],
        waits={"p": "not-enough"},
        says={"p": ["4", "3"]},
    ),
    "models are never mixed in one gang": Story(
        [node("h"), node("g", model="A100-80"), queue("a", 16), pending("p", pods(2, gpus=8))], waits={"p": "too-large"}
    ),
    "what no fleet of this size can hold is told at once": Story(
        [*nodes(2), pending("p", pods(3, gpus=8))], waits={"p": "too-large"}, says={"p": ["24", "16"]}
    ),
}

NEAR = {
    "a gang that asks for nothing is kept in one leaf": Story(
        [*TWO_LEAVES, running("r", on("a1", *FULL)), pending("p", pods(2, gpus=8))], on={"p": ["b1", "b2"]}
    ),
    "the smallest leaf that fits is taken": Story(
        [*TWO_LEAVES, node("a3", path="s1/l1"), pending("p", pods(2, gpus=8))], on={"p": ["b1", "b2"]}
    ),
    "a required leaf is a condition": Story(
        [*TWO_LEAVES, running("r", on("a1", *FULL), preemptible=False),
         pending("p", pods(2, gpus=8), required="leaf", priority=60), pending("q", pods(2, gpus=4), required="leaf")],
        starts=["p", "q"], on={"p": ["b1", "b2"], "q": ["a2"]},
    ),
    "leaves of the same name under other spines are other leaves": Story(
        [node("a", path="s1/l1"), node("b", path="s2/l1"), pending("p", pods(2, gpus=8), required="leaf")],
        waits={"p": "topology"},
    ),
    "nodes without a label are nobody's neighbours": Story(
        [node("a", path=""), node("b", path=""), pending("p", pods(2, gpus=8), required="leaf")], waits={"p": "topology"}
    ),
    "enough in all, not in one leaf": Story(
        [*TWO_LEAVES, *(running(f"r{n}", on(n, *FULL), preemptible=False) for n in ("a1", "b1")),
         pending("p", pods(2, gpus=8), required="leaf")],
        waits={"p": "topology"}, says={"p": ["leaf", "8", "16"]},
    ),
    "workers that prefer one node get an empty one": Story(
        [*nodes(3), running("r0", on("n0", 0, 1, 2, 3)), running("r1", on("n1", 0, 1)),
         pending("p", pods(8), preferred="node")],
        on={"p": ["n2"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", WHOLE.values(), ids=WHOLE)
def test_whole_gpus(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", ENGINES.values(), ids=ENGINES)
def test_media_engines(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", ASIDE.values(), ids=ASIDE)
def test_stepping_aside(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", MIXED.values(), ids=MIXED)
def test_models_together(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", SPREAD.values(), ids=SPREAD)
def test_replicas_apart(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", SLICED.values(), ids=SLICED)
def test_slices(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", SHARED.values(), ids=SHARED)
def test_shares(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", GANGS.values(), ids=GANGS)
def test_gangs(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize("story", NEAR.values(), ids=NEAR)
def test_neighbours(story: Story) -> None:
    tell(story)
