"""Watches at size, and after the server let them go."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.planes import pod
from tests.sandboxes import eventually
from tools.kubernetes.plane import ControlPlane

from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.clusters.kubernetes.api import Api
from gpufleet.clusters.kubernetes.seeing.pods import PodFact, pod_fact
from gpufleet.clusters.kubernetes.watching import Reflector

PODS = 1000
MOST_MIB_A_POD = 10 / 4000


@pytest.fixture
def api(control_plane: ControlPlane) -> Iterator[Api]:
    found = Api("east", lambda: access_from(str(control_plane.kubeconfig)))
    yield found
    found.close()


def gated(number: int) -> dict[str, object]:
    raw = pod(f"pod-{number}", "nowhere", gpus=1, schedulingGates=[{"name": "gpufleet.io/gang"}])
    labels = {"gpufleet.io/job": f"job-{number}", "gpufleet.io/attempt": "1", "gpufleet.io/rank": "0"}
    raw["metadata"]["labels"] = labels
    return raw


def create_all(client: httpx.Client, place: str, numbers: range) -> None:
    with ThreadPoolExecutor(16) as pool:
        for answer in pool.map(lambda n: client.post(paths.pods_in(place), json=gated(n)), numbers):
            assert answer.is_success, answer.text


def test_what_is_kept_of_a_pod_is_small_and_all_of_them_are_there(client: httpx.Client, place: str, api: Api) -> None:
    view = Reflector[PodFact](api, paths.pods_in(place), {}, pod_fact)
    view.begin()
    view.wait(20)
    create_all(client, place, range(PODS // 2))  # by the watch
    eventually(lambda: len(view.facts()) == PODS // 2)
    tracemalloc.start()
    create_all(client, place, range(PODS // 2, PODS))
    eventually(lambda: len(view.facts()) == PODS)
    again = Reflector[PodFact](api, paths.pods_in(place), {}, pod_fact)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    again.begin()  # by the list, page by page
    again.wait(30)
    gc.collect()
    kept = (tracemalloc.get_traced_memory()[0] - before) / (1 << 20)
    tracemalloc.stop()
    assert sorted(f.uid for f in again.facts()) == sorted(f.uid for f in view.facts())
    assert kept <= PODS * MOST_MIB_A_POD, f"{kept:.1f} MiB for {PODS} pods"


def test_a_kind_that_is_not_served_has_no_objects(api: Api) -> None:
    view = Reflector[int](api, "/apis/none.example.com/v1/things", {}, lambda raw: 1)
    view.begin()
    view.wait(10)
    assert view.facts() == [] and view.age() < 10
