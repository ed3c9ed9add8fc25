"""500 nodes of 8 GPUs, the plain kube-scheduler against ours: the same pods, the same control plane, one run.

    python -m tools.kubernetes.scale [--nodes 500] [--gang 512] [--jobs 4000] [--only gang|jobs]

Plain = the pods we would make, without pin, gate and finalizer, created over 64 connections. Ours = submit, plan, rows
in the database, launch and observation, by a controller in a process of its own. Time counts from the first create or
submit until a watcher in a third process has seen all of them Running.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from gpufleet.bootstrap import set_up
from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.clusters.kubernetes.api import Api
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.gang import gang_objects
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.formats.request import parse_request
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Device, Exactness, Node
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.tenancy import Principal
from gpufleet.model.workload import Container
from gpufleet.services.fleet import Fleet
from gpufleet.services.submit_job import submit_job
from gpufleet.settings import load_settings
from tools.kubernetes.nodes import GpuNode, add_nodes, is_ready, played_by_kwok
from tools.kubernetes.plane import ControlPlane

NAMESPACE = "gpufleet-scale"
IMAGE = "example.com/train:1"
LEAF, SPINE = 25, 125
"""Nodes of a leaf, nodes of a spine."""
SPARE = 990
"""Number of the node that is free when another one is lost."""
PATIENCE = 240.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--gang", type=int, default=512)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--only", choices=("gang", "jobs"))
    parser.add_argument("--watch", nargs=3, metavar=("KUBECONFIG", "SELECTOR", "COUNT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.watch:
        watch(asked.watch[0], asked.watch[1], int(asked.watch[2]))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started must not outlive it
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpufleet-scale-")))
        plane = stack.enter_context(ControlPlane(folder / "plane"))
        client = stack.enter_context(plane.client())
        _found(client, asked.nodes)
        _race(plane, client, folder, asked)


def _race(plane: ControlPlane, client: httpx.Client, folder: Path, asked: argparse.Namespace) -> None:
    api = Api("scale", lambda: access_from(str(plane.kubeconfig)))
    for name, size in (("gang", asked.gang), ("jobs", asked.jobs)):
        if asked.only in (None, name):
            plain = _plain(plane, api, size)
            _say(f"{name}: plain", plain)
            _empty(api)
            with _controlled(plane, folder / name) as (fleet, controller):
                ours = _ours(plane, fleet, size, one_gang=name == "gang")
                _say(f"{name}: ours", ours)
                _say(f"{name}: ratio", {"ours/plain": round(ours["running"] / plain["running"], 3)})
                _say(f"{name}: processes", _memory(plane, controller))
                if name == "gang":
                    _say("gang: domains", _domains(client))
                else:
                    _say("jobs: node lost", _lose_a_node(plane, client))
            _empty(api)
    api.close()


# ------------------------------------------------------------------ the two ways


def _plain(plane: ControlPlane, api: Api, size: int) -> dict[str, float]:
    bodies = [paths.create(paths.pods_in(NAMESPACE), pod) for pod in _plain_pods(size)]
    with _watcher(plane, "scale=plain", size) as all_running:
        began = time.time()
        wrong = [answer for answer in api.all(bodies) if not isinstance(answer, dict)]
        assert not wrong, wrong[0]
        created = time.time() - began
        return {"created": round(created, 1), "running": round(all_running() - began, 1)}


def _plain_pods(size: int) -> list[dict[str, Any]]:
    model = gpu_model("H100-80")
    node = Node("n", model, tuple(Device(n) for n in range(8)), exactness=Exactness.COUNT)
    container = Container(("python", "train.py"), IMAGE)
    specs = tuple(PodSpec(f"plain-{n}", n, PodPlace(0, n, "n", gpus=(0,)), container) for n in range(size))
    gang = GangSpec("plain", 1, "scale", NAMESPACE, specs, timedelta(seconds=30))
    return [_unpinned(pod) for pod in gang_objects(gang, {"n": node}, PodConfig(), "other").pods]


def _unpinned(pod: dict[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in pod["spec"].items() if key not in ("affinity", "schedulingGates")}
    metadata = {key: value for key, value in pod["metadata"].items() if key not in ("finalizers", "annotations")}
    return {**pod, "metadata": {**metadata, "labels": {"scale": "plain"}}, "spec": spec}


def _ours(plane: ControlPlane, fleet: Fleet, size: int, *, one_gang: bool) -> dict[str, float]:
    with _watcher(plane, "gpufleet.io/fleet=scale", size) as all_running:
        began = time.time()
        for number in range(1 if one_gang else size):
            submit_job(fleet, parse_request(_request(number, size if one_gang else 1)), Principal("ada"))
        submitted = time.time() - began
        return {"submitted": round(submitted, 1), "running": round(all_running() - began, 1)}


def _request(number: int, pods: int) -> dict[str, Any]:
    wish = {"topology_required": "spine", "topology_preferred": "leaf"} if pods > 1 else {}
    who = {"team": "scale", "project": "scale", "command": "python train.py", "image": IMAGE}
    return {**who, "name": f"job-{number}", "pods": pods, "gpus": 1, **wish}


def _lose_a_node(plane: ControlPlane, client: httpx.Client) -> dict[str, float]:
    """The node with the most jobs is deleted: until each of them runs on a spare one, in its second attempt."""
    add_nodes(client, [played_by_kwok(_node(SPARE))])
    _wait(lambda: is_ready(client.get(f"/api/v1/nodes/node-{SPARE:03}").json()))
    pods = client.get(f"/api/v1/namespaces/{NAMESPACE}/pods", timeout=60).json()["items"]
    (node, jobs), *_ = Counter(pod["spec"]["nodeName"] for pod in pods).most_common(1)
    with _watcher(plane, "gpufleet.io/fleet=scale,gpufleet.io/attempt=2", jobs) as all_running:
        began = time.time()
        client.delete(f"/api/v1/nodes/{node}").raise_for_status()
        return {"jobs": jobs, "running_again": round(all_running() - began, 1)}


# ------------------------------------------------------------------ what stands around


def _found(client: httpx.Client, nodes: int) -> None:
    """Namespace, priority classes, nodes; returns when all nodes can be used."""
    client.post("/api/v1/namespaces", json={"metadata": {"name": NAMESPACE}}).raise_for_status()
    _wait(lambda: client.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default").is_success)
    client.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", json={"metadata": {"name": "gpufleet-job"}})
    for kind in priority_classes("scale"):
        client.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=kind).raise_for_status()
    began = time.time()
    add_nodes(client, [played_by_kwok(_node(n)) for n in range(nodes)])
    _wait(lambda: sum(map(is_ready, client.get("/api/v1/nodes").json()["items"])) == nodes)
    _say("nodes", {"count": nodes, "ready": round(time.time() - began, 1)})


def _node(number: int) -> dict[str, Any]:
    labels = {
        "topology.kubernetes.io/zone": "z",
        "network.topology.nvidia.com/spine": f"s{number // SPINE}",
        "network.topology.nvidia.com/leaf": f"l{number // LEAF}",
    }
    return GpuNode(f"node-{number:03}", labels=labels).raw()


@contextlib.contextmanager
def _controlled(plane: ControlPlane, home: Path) -> Iterator[tuple[Fleet, psutil.Process]]:
    """A fleet in that home, with a controller that ticks beside us."""
    home.mkdir()
    world = {"name": "east", "kind": "kubernetes", "kubeconfig": str(plane.kubeconfig)}
    recovery = {"start_timeout": "20m"}
    _write(home / "fleet.yaml", {"version": 1, "fleet": "scale", "clusters": [world], "recovery": recovery})
    team = {"name": "scale", "queue": "scale", "projects": ["scale"], "members": [{"login": "ada"}]}
    _write(
        home / "teams.yaml", {"version": 1, "queues": [{"name": "scale"}], "teams": [{**team, "namespace": NAMESPACE}]}
    )
    fleet = set_up(load_settings(home, {}))
    environment = {**os.environ, "GPUFLEET_HOME": str(home)}
    with (home / "controller.log").open("wb") as log:
        command = [sys.executable, "-m", "gpufleet", "controller"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        time.sleep(5)
        try:
            yield fleet, psutil.Process(process.pid)
        except BaseException:
            sys.stderr.write((home / "controller.log").read_text()[-3000:])
            raise
        finally:
            process.terminate()
            process.wait(30)
            fleet.database.dispose()


def _write(path: Path, value: Any) -> None:
    path.write_text(yaml.safe_dump(value))


@contextlib.contextmanager
def _watcher(plane: ControlPlane, selector: str, count: int) -> Iterator[Callable[[], float]]:
    """A process that watches; the function waits for it and gives the instant when all were Running."""
    command = [
        sys.executable,
        "-m",
        "tools.kubernetes.scale",
        "--watch",
        str(plane.root_kubeconfig),
        selector,
        str(count),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "watching"
        try:
            yield lambda: float(process.communicate(timeout=PATIENCE)[0])
        finally:
            process.kill()


def watch(kubeconfig: str, selector: str, count: int) -> None:
    """Say when as many pods are Running."""
    from gpufleet.clusters.kubernetes.watching import Reflector

    api = Api("watcher", lambda: access_from(kubeconfig))
    query = {"labelSelector": selector, "fieldSelector": "status.phase=Running"}
    view = Reflector[int](api, paths.PODS, query, lambda raw: 1)
    view.begin()
    view.wait(30)
    print("watching", flush=True)
    _wait(lambda: len(view.facts()) >= count)
    print(time.time(), flush=True)
    api.close()


def _empty(api: Api) -> None:
    """No pod is left in the namespace; a delete of the whole collection would run into the server's time limit."""
    path = paths.pods_in(NAMESPACE)
    while pods := [one["metadata"] for one in api.ask(paths.get(path))["items"]]:
        held = [f"{path}/{pod['name']}" for pod in pods if pod.get("finalizers")]
        api.all(paths.merge(one, {"metadata": {"finalizers": None}}, only_metadata=True) for one in held)
        api.all(paths.delete(f"{path}/{pod['name']}", grace=0) for pod in pods)


def _domains(client: httpx.Client) -> dict[str, Any]:
    """On how many leaves and spines the gang runs."""
    nodes = [
        pod["spec"]["nodeName"]
        for pod in client.get(f"/api/v1/namespaces/{NAMESPACE}/pods", timeout=60).json()["items"]
    ]
    numbers = [int(name.removeprefix("node-")) for name in nodes]
    return {
        "nodes": len(Counter(nodes)),
        "leaves": len({n // LEAF for n in numbers}),
        "spines": len({n // SPINE for n in numbers}),
    }


def _memory(plane: ControlPlane, controller: psutil.Process) -> dict[str, str]:
    mib = controller.memory_info().rss / (1 << 20)
    cpu = controller.cpu_times()
    return {"controller": f"{mib:.0f} MiB, {cpu.user + cpu.system:.1f} s of CPU"}


def _wait(true: Callable[[], bool]) -> None:
    until = time.time() + PATIENCE
    while not true():
        if time.time() > until:
            raise TimeoutError(f"It did not come true in {PATIENCE:g} s.")
        time.sleep(0.02)


def _say(what: str, told: dict[str, Any]) -> None:
    print(f"{what:18}", json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
