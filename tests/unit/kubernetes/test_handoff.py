"""Jobs and quotas for other schedulers, and what those say about them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.builders import job, pods, queue
from tests.gangs import assert_golden, counted, main_of

from gpufleet.clusters.handed import Admission, Stage
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.handoff import kai, kueue, volcano
from gpufleet.clusters.kubernetes.rendering.handoff.jobs import HandedOver, Level
from gpufleet.clusters.kubernetes.rendering.handoff.shares import flavors, queue_shares
from gpufleet.errors import Permanent
from gpufleet.model.hardware import Node
from gpufleet.model.tenancy import Team
from gpufleet.model.workload import Container, Job

LEVELS = (Level("spine", "cloud/block"), Level("leaf", "cloud/rack"))
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
NODES = tuple(counted(f"n{i}", labels=PRODUCT) for i in range(4))
CUT = counted("cut", layout={n: [f"1g.10gb@{start}" for start in range(7)] for n in range(8)}, labels=PRODUCT)
A100 = counted("old", model="A100-80", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"})
QUEUES = (
    queue("org", deserved=24),
    queue("vision", deserved=16, limit=24, parent="org", weight=2.0),
    queue("speech", deserved=8, parent="org"),
    queue("serving", deserved=8),
)
TEAMS = (
    Team("vision", "vision", ("p",), namespace="gpufleet-vision"),
    Team("speech", "speech", ("p",), namespace="gpufleet-speech"),
)


def handed(asked: Job, *nodes: Node, levels: tuple[Level, ...] = LEVELS) -> HandedOver:
    container = Container(("python", "train.py"), "registry.example/job:1")
    return HandedOver(asked, 1, "gpufleet-vision", container, nodes or NODES, levels, "main", PodConfig())


GANG = job("train-1a2b", pods(4, gpus=8), queue="vision", required="leaf")
SLICE = job("tiny", pods(1, slice_gib=9), queue="vision")
SHARE = job("half", pods(1, share="500/20"), queue="vision")


def of_kind(objects: Any, kind: str) -> list[dict[str, Any]]:
    return [found for found in objects if found["kind"] == kind]


def named(objects: Any, kind: str, name: str) -> dict[str, Any]:
    return next(found for found in of_kind(objects, kind) if found["metadata"]["name"] == name)


# ------------------------------------------------------------------ jobs


@pytest.mark.parametrize("scheduler", [kueue, volcano, kai], ids=lambda module: module.NAME)
def test_the_pods_are_ours_without_a_place_and_without_our_gate(scheduler: Any) -> None:
    found = of_kind(scheduler.job_objects(handed(GANG)), "Pod")
    assert len(found) == 4
    for rank, pod in enumerate(found):
        labels = pod["metadata"]["labels"]
        assert (labels["gpufleet.io/job"], labels["gpufleet.io/rank"]) == ("train-1a2b", str(rank))
        assert "schedulingGates" not in pod["spec"]
        term = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["NVIDIA-H100-80GB-HBM3"]
        assert main_of(pod)["resources"]["limits"] == {"nvidia.com/gpu": "8"}


def test_kueue_is_told_the_queue_the_group_and_the_topology() -> None:
    first, *_ = of_kind(kueue.job_objects(handed(GANG)), "Pod")
    assert first["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "vision"
    annotations = first["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "4"
    assert annotations["kueue.x-k8s.io/podset-required-topology"] == "cloud/rack"


def test_pods_that_ask_for_the_same_look_the_same_to_kueue() -> None:
    found = of_kind(kueue.job_objects(handed(GANG)), "Pod")
    shapes = [
        (main_of(p)["ports"], main_of(p)["resources"], p["spec"]["affinity"], p["spec"]["tolerations"]) for p in found
    ]
    assert all(shape == shapes[0] for shape in shapes)


def test_volcano_counts_tiers_from_the_narrowest_level() -> None:
    group, *_ = volcano.job_objects(handed(GANG))
    assert group["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}
    assert (group["spec"]["minMember"], group["spec"]["minResources"]) == (4, {"nvidia.com/gpu": "32"})
    wide = replace(GANG, topology=replace(GANG.topology, required=None, preferred="spine"))
    assert volcano.job_objects(handed(wide))[0]["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}


def test_an_elastic_gang_may_begin_with_its_least_pods() -> None:
    elastic = replace(GANG, min_members=2)
    assert volcano.job_objects(handed(elastic))[0]["spec"]["minResources"] == {"nvidia.com/gpu": "16"}
    assert kai.job_objects(handed(elastic))[0]["spec"]["minMember"] == 2


def test_kai_has_shares_by_annotation_and_the_others_have_none() -> None:
    (pod,) = of_kind(kai.job_objects(handed(SHARE)), "Pod")
    assert pod["metadata"]["annotations"]["gpu-memory"] == str(20 * 1024)
    assert main_of(pod)["resources"]["limits"] == {}
    for other in (kueue, volcano):
        with pytest.raises(Exception, match="offers no shares"):
            other.job_objects(handed(SHARE))


def test_a_slice_is_asked_for_by_the_smallest_profile_that_holds_it() -> None:
    (pod,) = of_kind(kueue.job_objects(handed(SLICE)), "Pod")
    assert main_of(pod)["resources"]["limits"] == {"nvidia.com/mig-1g.10gb": "1"}


NEVER = {
    "a model that is not there": (replace(GANG, models=("B200",)), "none has the GPUs that it asks for"),
    "more GPUs than a node has": (job("big", pods(1, gpus=16), queue="vision"), "none has the GPUs that it asks for"),
    "a slice that is not made": (
        job("odd", pods(1, profile="9g.90gb"), queue="vision"),
        "a slice that H100-80 does not",
    ),
    "a level that is not labelled": (
        replace(GANG, topology=replace(GANG.topology, required="row")),
        "asks for one row",
    ),
}


@pytest.mark.parametrize(("asked", "why"), NEVER.values(), ids=NEVER)
def test_what_can_never_run_there_is_said_at_once(asked: Job, why: str) -> None:
    with pytest.raises(Permanent, match=why):
        kueue.job_objects(handed(asked))


@pytest.mark.parametrize("scheduler", [kueue, volcano, kai], ids=lambda module: module.NAME)
def test_the_objects_of_a_job_are_those_of_the_golden_file(scheduler: Any) -> None:
    two = replace(GANG, pod_sets=(pods(2, gpus=8),))
    assert_golden(f"{scheduler.NAME}-job", [*scheduler.job_objects(handed(two)), *scheduler.job_objects(handed(SLICE))])


# ------------------------------------------------------------------ quotas


def test_a_queue_is_promised_what_it_deserves_and_may_borrow_up_to_its_limit() -> None:
    found = kueue.quota_objects("main", QUEUES, TEAMS, NODES, LEVELS)
    spec = named(found, "ClusterQueue", "vision")["spec"]
    assert spec["cohortName"] == "org"
    gpus, *plenty = spec["resourceGroups"][0]["flavors"][0]["resources"]
    assert gpus == {"name": "nvidia.com/gpu", "nominalQuota": "16", "borrowingLimit": "8"}
    assert [resource["name"] for resource in plenty] == ["cpu", "memory"], "or a pod that asks for them never starts"
    assert named(found, "Cohort", "org")["spec"]["parentName"] == "gpufleet-main"
    assert [level["nodeLabel"] for level in of_kind(found, "Topology")[0]["spec"]["levels"]] == [
        "cloud/block",
        "cloud/rack",
        "kubernetes.io/hostname",
    ]


def test_where_cards_are_cut_the_promise_is_a_part_of_the_slices_too() -> None:
    found = kueue.quota_objects("main", QUEUES, TEAMS, (*NODES[:1], CUT), LEVELS)
    (flavor,) = named(found, "ClusterQueue", "serving")["spec"]["resourceGroups"][0]["flavors"]
    assert {r["name"]: r["nominalQuota"] for r in flavor["resources"] if "nvidia" in r["name"]} == {
        "nvidia.com/gpu": "4",
        "nvidia.com/mig-1g.10gb": "28",
    }


def test_a_promise_of_any_model_is_spread_over_the_models_by_their_number() -> None:
    found = {s.name: s for s in queue_shares(QUEUES, flavors((*NODES[:3], A100)))}
    assert found["vision"].deserved == {"H100-80": 12, "A100-80": 4}
    assert found["vision"].most == 24


def test_volcano_and_kai_have_the_same_tree() -> None:
    queues = {q["metadata"]["name"]: q["spec"] for q in volcano.quota_objects("main", QUEUES, NODES)}
    assert queues["vision"]["parent"] == "org" and queues["org"]["parent"] == "root"
    assert queues["vision"]["deserved"] == {"nvidia.com/gpu": "16"}
    assert queues["vision"]["capability"] == {"nvidia.com/gpu": "24"} and "capability" not in queues["speech"]
    trees = {
        q["metadata"]["name"]: q["spec"] for q in of_kind(kai.quota_objects("main", QUEUES, NODES, LEVELS), "Queue")
    }
    assert trees["vision"]["parentQueue"] == "org" and "parentQueue" not in trees["org"]
    assert trees["vision"]["resources"]["gpu"] == {"quota": 16, "overQuotaWeight": 2, "limit": 24}
    assert trees["speech"]["resources"]["gpu"]["limit"] == -1


def test_the_quotas_are_those_of_the_golden_files() -> None:
    nodes = (*NODES, A100, CUT)
    assert_golden("kueue-quotas", kueue.quota_objects("main", QUEUES, TEAMS, nodes, LEVELS))
    assert_golden("volcano-quotas", volcano.quota_objects("main", QUEUES, nodes))
    assert_golden("kai-quotas", kai.quota_objects("main", QUEUES, nodes, LEVELS))


@given(some.lists(some.integers(0, 60), min_size=1, max_size=5), some.integers(1, 4), some.booleans())
def test_no_scheduler_is_promised_more_than_its_nodes_offer(deserved: list[int], count: int, with_slices: bool) -> None:
    nodes = (*NODES[:count], *([CUT] if with_slices else []))
    queues = tuple(queue(f"q{n}", deserved=amount) for n, amount in enumerate(deserved))
    total = sum(len(node.devices) for node in nodes)
    if sum(deserved) > total:
        return  # doctor warns of it; each queue alone is still bounded below
    for resource, offered in flavors(nodes)[0].offers:
        told = volcano.quota_objects("main", queues, nodes)
        assert sum(int(q["spec"]["deserved"].get(resource, 0)) for q in told) <= offered
    for share in queue_shares(queues, flavors(nodes)):
        assert sum(share.deserved.values(), Fraction(0)) <= total


# ------------------------------------------------------------------ what they say


def workload(*conditions: tuple[str, str, str, str]) -> dict[str, Any]:
    said = [{"type": t, "status": s, "reason": r, "message": m} for t, s, r, m in conditions]
    return {"metadata": {"namespace": "gpufleet-vision", "name": "train-1"}, "status": {"conditions": said}}


FULL = "insufficient unused quota for nvidia.com/gpu in flavor h100, 16 more needed"
WAITS = ("QuotaReserved", "False", "Pending", FULL)
LINE = {"items": [
    {"metadata": {"namespace": "gpufleet-speech", "name": "train-1"}, "positionInClusterQueue": 0},
    {"metadata": {"namespace": "gpufleet-vision", "name": "train-1"}, "positionInClusterQueue": 2},
]}  # fmt: skip
PREEMPTED = ("Evicted", "True", "Preempted", "to reclaim what was lent")

KUEUE = {
    "no workload yet": (None, None, Admission(Stage.UNSEEN)),
    "nobody has looked": (workload(), None, Admission(Stage.UNSEEN)),
    "quota is used up": (workload(WAITS), None, Admission(Stage.WAITING, "Pending", FULL)),
    "it is the third in the line": (workload(WAITS), LINE, Admission(Stage.WAITING, "Pending", FULL, 3)),
    "it is admitted": (
        workload(("QuotaReserved", "True", "QuotaReserved", ""), ("Admitted", "True", "Admitted", "yes")),
        LINE,
        Admission(Stage.ADMITTED, "Admitted", "yes"),
    ),
    "it was evicted": (
        workload(("Admitted", "False", "", ""), PREEMPTED, WAITS),
        None,
        Admission(Stage.EVICTED, "Preempted", "to reclaim what was lent"),
    ),
    "it is over": (
        workload(PREEMPTED, ("Finished", "True", "Succeeded", "done")),
        None,
        Admission(Stage.FINISHED, "Succeeded", "done"),
    ),
}


@pytest.mark.parametrize(("said", "line", "want"), KUEUE.values(), ids=KUEUE)
def test_kueue_says(said: Any, line: Any, want: Admission) -> None:
    assert kueue.admission(said, line) == want


def group(phase: str, key: str = "conditions", **condition: str) -> dict[str, Any]:
    return {"status": {"phase": phase, key: [condition] if condition else []}}


SHORT = {
    "type": "Unschedulable",
    "status": "True",
    "reason": "NotEnoughResources",
    "message": "3/4 tasks unschedulable",
}
GROUPS = {
    "volcano has not seen it": (volcano.admission, None, Admission(Stage.UNSEEN)),
    "volcano lets it wait": (volcano.admission, group("Inqueue"), Admission(Stage.WAITING)),
    "volcano says what is missing": (
        volcano.admission,
        group("Pending", **SHORT),
        Admission(Stage.WAITING, "NotEnoughResources", "3/4 tasks unschedulable"),
    ),
    "volcano runs it": (volcano.admission, group("Running", **SHORT), Admission(Stage.ADMITTED)),
    "volcano lost a part": (volcano.admission, group("Unknown"), Admission(Stage.EVICTED)),
    "volcano is done": (volcano.admission, group("Completed"), Admission(Stage.FINISHED)),
    "kai says what is missing": (
        kai.admission,
        group("", "schedulingConditions", **(SHORT | {"type": "UnschedulableOnNodePool"})),
        Admission(Stage.WAITING, "NotEnoughResources", "3/4 tasks unschedulable"),
    ),
    "kai runs it": (kai.admission, group("Running"), Admission(Stage.ADMITTED)),
    "kai has not seen it": (kai.admission, {}, Admission(Stage.UNSEEN)),
}  # fmt: skip


@pytest.mark.parametrize(("read", "said", "want"), GROUPS.values(), ids=GROUPS)
def test_the_others_say(read: Any, said: Any, want: Admission) -> None:
    assert read(said) == want


odd = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(
        some.sampled_from(["status", "conditions", "schedulingConditions", "type", "phase", "metadata", "items", "reason"]), inner
    ),
    max_leaves=20,
)  # fmt: skip


@given(odd, odd)
def test_nothing_a_scheduler_says_breaks_the_reader(said: Any, line: Any) -> None:
    for found in (kueue.admission(said, line), volcano.admission(said), kai.admission(said)):
        assert isinstance(found, Admission)
