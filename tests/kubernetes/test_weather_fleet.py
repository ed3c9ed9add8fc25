"""Bad weather through the whole fleet: submitted, planned, launched and watched on the real API server.

Always: one attempt's pods and no others, nothing that holds a GPU without its gang, a reason a team can read, and in the
end the job runs or says what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.kubernetes.fleets import Played, bare_node, kwok_nodes, patch_node, played, set_status
from tests.planes import create, pod
from tests.sandboxes import eventually
from tools.kubernetes.plane import ControlPlane

from gpufleet.clusters.kubernetes.seeing import pods as reading
from gpufleet.services.apply_operations import apply_operations
from gpufleet.services.observe import observe
from gpufleet.services.run_pass import run_pass

Raw = dict[str, Any]
LOST = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "NodeStatusUnknown",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture
def fleet(control_plane: ControlPlane, client: httpx.Client, place: str, tmp_path: Path) -> Iterator[Played]:
    """Two nodes of eight GPUs in one leaf, played by kwok."""
    with played(tmp_path / "home", control_plane.kubeconfig, client, place, kwok_nodes()) as found:
        found.tick()
        yield found


def nodes_of(fleet: Played) -> set[str]:
    return {p["spec"].get("nodeName", "") for p in fleet.pods()}


def decide(fleet: Played, job: str) -> None:
    """Everything up to the effects: what happens next happens between plan and bind."""
    observe(fleet.fleet)
    run_pass(fleet.fleet)


class TestItStartsAndEnds:
    def test_a_gang_runs_whole_and_is_taken_away_whole(self, fleet: Played) -> None:
        job = fleet.submit(pods=4, gpus=2)
        fleet.until(job, "running")
        fleet.assert_settled(job, 4)
        from gpufleet.model.tenancy import Principal
        from gpufleet.services.change_job import cancel_job

        cancel_job(fleet.fleet, job, Principal("ada"))
        fleet.until(job, "cancelled")
        eventually(lambda: fleet.tick() or not fleet.pods())
        services = fleet.client.get(f"/api/v1/namespaces/{fleet.namespace}/services").json()["items"]
        assert services == []


class TestNodes:
    def test_a_lost_node_takes_its_attempt_with_it_and_the_next_one_goes_elsewhere(self, fleet: Played) -> None:
        with bare_node(fleet.client, gpus=4) as lonely:
            job = fleet.submit(pods=1, gpus=4)
            for other in nodes_by_name(fleet) - {lonely}:
                patch_node(fleet.client, other, {"spec": {"unschedulable": True}})
            fleet.until(job, "starting")
            eventually(lambda: fleet.tick() or nodes_of(fleet) == {lonely})
            for other in nodes_by_name(fleet) - {lonely}:
                patch_node(fleet.client, other, {"spec": {"unschedulable": None}})
            patch_node(fleet.client, lonely, {"status": {"conditions": [LOST]}}, "/status")
            fleet.until_it_says(job, f"node {lonely} was lost")
            fleet.until(job, "running")
            fleet.assert_settled(job, 1)
            assert nodes_of(fleet).isdisjoint({lonely})

    def test_a_deleted_node_too(self, fleet: Played) -> None:
        job = fleet.submit(pods=1, gpus=8)
        fleet.until(job, "running")
        (gone,) = nodes_of(fleet)
        fleet.client.delete(f"/api/v1/nodes/{gone}").raise_for_status()
        fleet.until_it_says(job, f"node {gone} was lost")
        fleet.until(job, "running")
        fleet.assert_settled(job, 1)
        assert nodes_of(fleet).isdisjoint({gone})

    def test_a_node_tainted_between_plan_and_bind_gets_nothing(self, fleet: Played) -> None:
        job = fleet.submit(pods=2, gpus=8)
        decide(fleet, job)
        tainted = min(nodes_by_name(fleet))
        patch_node(fleet.client, tainted, {"spec": {"taints": [{"key": "repair", "effect": "NoSchedule"}]}})
        apply_operations(fleet.fleet)
        told = (
            fleet.until_it_says(job, "could not start")
            if not fleet.pods()
            else fleet.until_it_says(job, "untolerated taint")
        )
        assert told
        fleet.until(job, "pending")
        eventually(lambda: fleet.tick() or not fleet.pods())
        patch_node(fleet.client, tainted, {"spec": {"taints": None}})
        fleet.until(job, "running", within=60)
        fleet.assert_settled(job, 2)

    def test_fewer_gpus_than_there_were_are_no_place_for_a_big_job(self, fleet: Played) -> None:
        for name in nodes_by_name(fleet):
            patch_node(fleet.client, name, {"status": {"allocatable": {"nvidia.com/gpu": "7"}}}, "/status")
        eventually(lambda: all(sum(d.healthy for d in n.devices) == 7 for n in fleet.cluster.observe().nodes))
        big, small = fleet.submit(pods=1, gpus=8), fleet.submit(pods=1, gpus=7)
        fleet.until(small, "running")
        assert "unhealthy" in str(fleet.view(big)) and fleet.view(big)["state"] == "pending"


def nodes_by_name(fleet: Played) -> set[str]:
    return {n.name for n in fleet.cluster.observe().nodes}


class TestOthers:
    def test_who_was_quicker_keeps_the_gpu_and_no_half_gang_stays(self, fleet: Played) -> None:
        job = fleet.submit(pods=2, gpus=8)
        decide(fleet, job)
        taken = min(nodes_by_name(fleet))
        create(fleet.client, fleet.namespace, pod("stranger", taken, gpus=8))
        apply_operations(fleet.fleet)
        fleet.until_it_says(job, "Insufficient nvidia.com/gpu")
        fleet.until(job, "pending")
        eventually(lambda: fleet.tick() or not fleet.pods())
        fleet.client.delete(f"/api/v1/namespaces/{fleet.namespace}/pods/stranger")
        fleet.until(job, "running", within=60)
        fleet.assert_settled(job, 2)

    def test_a_quota_says_no_to_the_whole_gang(self, fleet: Played) -> None:
        quota = {"metadata": {"name": "gpu"}, "spec": {"hard": {"requests.nvidia.com/gpu": "12"}}}
        path = f"/api/v1/namespaces/{fleet.namespace}/resourcequotas"
        fleet.client.post(path, json=quota).raise_for_status()
        eventually(lambda: fleet.client.get(f"{path}/gpu").json()["status"].get("used"))
        job = fleet.submit(pods=2, gpus=8)
        fleet.until_it_says(job, "exceeded quota", "requests.nvidia.com/gpu")
        eventually(lambda: fleet.pods() == [])
        fleet.client.delete(f"{path}/gpu").raise_for_status()
        fleet.until(job, "running", within=60)
        fleet.assert_settled(job, 2)

    def test_an_admission_rule_says_no_in_its_own_words(self, fleet: Played) -> None:
        with Denied(fleet.client, fleet.namespace, "no training on Mondays"):
            job = fleet.submit(pods=2, gpus=1)
            fleet.until_it_says(job, "no training on Mondays")
            assert fleet.pods() == []
        fleet.until(job, "running", within=60)
        fleet.assert_settled(job, 2)


class TestPods:
    def test_an_image_that_cannot_be_pulled_is_told_and_tried_elsewhere(self, fleet: Played) -> None:
        for name in nodes_by_name(fleet):
            patch_node(fleet.client, name, {"spec": {"unschedulable": True}})
        with bare_node(fleet.client) as lonely:
            job = fleet.submit(pods=1, gpus=8)
            eventually(lambda: fleet.tick() or nodes_of(fleet) == {lonely})
            (waiting,) = fleet.pods()
            state = {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}
            status = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state, **NOT_READY}]}
            set_status(fleet.client, fleet.namespace, waiting["metadata"]["name"], status)
            fleet.until_it_says(job, "not all pods ran", "manifest unknown")

    def test_what_the_node_evicts_is_started_again_and_not_the_jobs_fault(self, fleet: Played) -> None:
        job = fleet.submit(pods=2, gpus=4)
        fleet.until(job, "running")
        victim = fleet.pods()[0]["metadata"]["name"]
        set_status(fleet.client, fleet.namespace, victim, {"phase": "Failed", "reason": "Evicted", "message": "disk"})
        fleet.until_it_says(job, "was stopped from outside")
        fleet.until(job, "running", within=60)
        fleet.assert_settled(job, 2)

    def test_what_somebody_else_evicts_too(self, fleet: Played) -> None:
        job = fleet.submit(pods=2, gpus=4)
        fleet.until(job, "running")
        name = fleet.pods()[0]["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": fleet.namespace}}
        path = f"/api/v1/namespaces/{fleet.namespace}/pods/{name}/eviction"
        fleet.client.post(path, json=body).raise_for_status()
        fleet.until_it_says(job, "was stopped from outside")
        fleet.until(job, "running", within=60)
        fleet.assert_settled(job, 2)

    def test_a_pod_that_never_ends_is_left_behind_and_its_node_with_it(
        self, fleet: Played, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "STUCK_AFTER", reading.timedelta(seconds=2))
        for name in nodes_by_name(fleet):
            patch_node(fleet.client, name, {"spec": {"unschedulable": True}})
        with bare_node(fleet.client) as lonely:
            job = fleet.submit(pods=1, gpus=8, grace="1s")
            eventually(lambda: fleet.tick() or nodes_of(fleet) == {lonely})
            stuck = fleet.pods()[0]["metadata"]
            for name in nodes_by_name(fleet) - {lonely}:
                patch_node(fleet.client, name, {"spec": {"unschedulable": None}})
            fleet.client.request(
                "DELETE",
                f"/api/v1/namespaces/{fleet.namespace}/pods/{stuck['name']}",
                json={"gracePeriodSeconds": 1},
            ).raise_for_status()
            fleet.until(job, "running", within=60)
            fleet.assert_settled(job, 1)
            assert fleet.client.get(f"/api/v1/nodes/{lonely}").json()["spec"]["unschedulable"] is True

    def test_a_deleted_namespace_is_waited_for(self, fleet: Played) -> None:
        job = fleet.submit(pods=2, gpus=4)
        fleet.until(job, "running")
        fleet.client.delete(f"/api/v1/namespaces/{fleet.namespace}").raise_for_status()
        fleet.until_it_says(job, "Namespace", "is not there", within=60)
        fleet.client.post("/api/v1/namespaces", json={"metadata": {"name": fleet.namespace}}).raise_for_status()
        account = {"metadata": {"name": "gpufleet-job"}}
        fleet.client.post(f"/api/v1/namespaces/{fleet.namespace}/serviceaccounts", json=account).raise_for_status()
        fleet.until(job, "running", within=60)
        fleet.assert_settled(job, 2)


NOT_READY = {"ready": False, "restartCount": 0, "image": "x", "imageID": ""}


class Denied:
    """While it lasts, an admission rule of the cluster turns every pod of ours in the namespace away."""

    PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def __init__(self, client: httpx.Client, namespace: str, message: str) -> None:
        self.client, self.namespace, self.message = client, namespace, message

    def __enter__(self) -> None:
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        policy = {
            "metadata": {"name": self.namespace},
            "spec": {
                "matchConstraints": {"resourceRules": rules, "namespaceSelector": chosen},
                "validations": [{"expression": "object.metadata.name == 'allowed'", "message": self.message}],
            },
        }
        binding = {
            "metadata": {"name": self.namespace},
            "spec": {"policyName": self.namespace, "validationActions": ["Deny"]},
        }
        self.client.post(self.PATH, json=policy).raise_for_status()
        self.client.post(f"{self.PATH.removesuffix('ies')}ybindings", json=binding).raise_for_status()
        path = f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All"
        eventually(lambda: self.client.post(path, json=pod("probe")).status_code != httpx.codes.CREATED)

    def __exit__(self, *_: object) -> None:
        self.client.delete(f"{self.PATH.removesuffix('ies')}ybindings/{self.namespace}")
        self.client.delete(f"{self.PATH}/{self.namespace}")
        path = f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All"
        eventually(lambda: self.client.post(path, json=pod("probe")).status_code == httpx.codes.CREATED)
