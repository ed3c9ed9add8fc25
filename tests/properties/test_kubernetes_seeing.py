"""Whatever the API shows: reading it never raises, and never makes a GPU of nothing."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.seeing.fleet import ClusterFacts, see
from gpufleet.clusters.kubernetes.seeing.foreign import foreign_pod, taken_by_node
from gpufleet.clusters.kubernetes.seeing.held import held_on_node
from gpufleet.clusters.kubernetes.seeing.nodes import node_fact
from gpufleet.clusters.kubernetes.seeing.pods import pod_fact
from gpufleet.clusters.kubernetes.seeing.slices import claim_fact, held_by_others, slice_fact
from gpufleet.model.hardware import Node, illegal_layout

CONFIG = SeeingConfig()
PROFILES = ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")

ODD = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=8),
        st.sampled_from(["True", "Unknown", "Failed", "-MIG-1g.5gb", "8", "1Gi", "1e99", "-3", "2026-01-01T00:00:00Z"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
NODE = {
    "metadata": {
        "name": "n",
        "uid": "u",
        "labels": {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.memory": "81559",
        },
        "annotations": {"gpufleet.io/mig-layout": "7:1g.10gb@0", "gpufleet.io/notices": '[{"id": "x", "at": 3}]'},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"providerID": "aws:///a/i-1", "taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": False},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "7", "nvidia.com/mig-1g.10gb": "1"},
        "capacity": {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "7", "nvidia.com/mig-1g.10gb": "1"},
    },
}
POD = {
    "metadata": {
        "name": "p",
        "uid": "u",
        "namespace": "t",
        "labels": {"gpufleet.io/job": "j", "gpufleet.io/attempt": "1", "gpufleet.io/rank": "0"},
        "annotations": {"gpufleet.io/devices": "0", "gpufleet.io/save-request": "3"},
        "finalizers": ["gpufleet.io/observed"],
        "deletionTimestamp": "2026-01-01T00:00:30Z",
        "deletionGracePeriodSeconds": 30,
    },
    "spec": {
        "nodeName": "n",
        "schedulingGates": [{"name": "gpufleet.io/gang"}],
        "containers": [
            {"name": "main", "ports": [{"name": "serve", "containerPort": 1}], "resources": {"limits": {"cpu": "1"}}}
        ],
        "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        "overhead": {"cpu": "1"},
    },
    "status": {
        "phase": "Failed",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [
            {
                "name": "main",
                "state": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:10Z"}},
            }
        ],
    },
}
SLICE = {
    "metadata": {"labels": {"gpufleet.io/fleet": "f"}},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "n",
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}},
                "capacity": {"memory": {"value": "80Gi"}},
                "taints": [],
            }
        ],
    },
    "status": {"allocation": {"devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}]}}},
}


def places(raw: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every part of it."""
    for key, value in raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ():
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def spoiled(draw: st.DrawFn, raw: Any) -> Any:
    """The object, with up to three of its parts replaced by something odd."""
    found = copy.deepcopy(raw)
    paths = draw(st.lists(st.sampled_from(list(places(raw))), min_size=1, max_size=3))
    for *way, last in sorted(paths, key=len, reverse=True):  # the deep ones first, so that every way still exists
        at = found
        for key in way:
            at = at[key]
        at[last] = draw(ODD)
    return found


@settings(max_examples=300)
@given(raw=spoiled(NODE), dra=spoiled(SLICE))
def test_an_odd_node_is_read_without_an_error(raw: Any, dra: Any) -> None:
    fact, found = node_fact(raw, CONFIG), slice_fact(dra)
    see(ClusterFacts((fact,), slices={found.node: found} if found else {}), CONFIG, "c")


@settings(max_examples=300)
@given(raw=spoiled(POD))
def test_an_odd_pod_is_read_without_an_error(raw: Any) -> None:
    pod_fact(raw)
    taken_by_node(found for found in [foreign_pod(raw)] if found)


@given(raw=spoiled(SLICE))
def test_an_odd_claim_is_read_without_an_error(raw: Any) -> None:
    held_by_others([found for found in [claim_fact(raw)] if found], "f")


@given(raw=ODD)
def test_what_is_no_object_at_all_is_read_as_nothing(raw: Any) -> None:
    assert (pod_fact(raw), foreign_pod(raw), slice_fact(raw), claim_fact(raw)) == (None, None, None, None)
    assert see(ClusterFacts((node_fact(raw, CONFIG),)), CONFIG, "c").nodes == ()


@st.composite
def counted_nodes(draw: st.DrawFn) -> tuple[Any, dict[str, int], dict[str, int]]:
    """(raw node, what it gives, what others take)."""
    names = ("nvidia.com/gpu", *(f"nvidia.com/mig-{p.replace('+', '.')}" for p in PROFILES))
    numbers = st.integers(0, 9)
    gives = draw(st.dictionaries(st.sampled_from(names), numbers, max_size=4))
    extra = draw(st.dictionaries(st.sampled_from(names), numbers, max_size=2))
    takes = draw(st.dictionaries(st.sampled_from(names), numbers, max_size=3))
    has = {name: gives.get(name, 0) + extra.get(name, 0) for name in gives.keys() | extra.keys()}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": str(draw(st.integers(0, 16)))}
    raw = {
        "metadata": {"name": "n", "labels": labels},
        "status": {
            "allocatable": {k: str(v) for k, v in gives.items()},
            "capacity": {k: str(v) for k, v in has.items()},
        },
    }
    return raw, gives, takes


def seen(raw: Any, takes: dict[str, int], planned: list[str]) -> Node | None:
    pod = {"spec": {"nodeName": "n", "containers": [{"resources": {"limits": takes}}]}}
    others = foreign_pod(pod)
    facts = ClusterFacts(
        (node_fact(raw, CONFIG),),
        taken=taken_by_node([others] if others else []),
        held={"n": held_on_node(planned)},
    )
    return next(iter(see(facts, CONFIG, "c").nodes), None)


@given(
    node=counted_nodes(),
    planned=st.lists(
        st.one_of(
            st.integers(0, 9).map(str),
            st.builds("MIG:{}/{}@{}".format, st.integers(0, 9), st.sampled_from(PROFILES), st.integers(0, 7)),
        ),
        max_size=4,
    ),
)
def test_never_more_than_the_node_gives_and_others_leave(
    node: tuple[Any, dict[str, int], dict[str, int]], planned: list[str]
) -> None:
    raw, gives, takes = node
    found = seen(raw, takes, planned)
    if found is None:
        return
    left = {name: max(0, gives.get(name, 0) - takes.get(name, 0)) for name in gives}
    whole = [d for d in found.devices if d.healthy and not d.instances]
    slices = Counter(i.profile for d in found.devices for i in d.instances)
    assert len(whole) <= left.get("nvidia.com/gpu", 0)
    for profile, count in slices.items():
        assert count <= left.get(f"nvidia.com/mig-{profile.replace('+', '.')}", 0)
    assert all(illegal_layout(found.model, d.instances) is None for d in found.devices)
