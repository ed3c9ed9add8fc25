"""`python -m tools.demo.kubernetes HOME`: a Kubernetes cluster under the fleet in HOME, until SIGTERM.

A real control plane; its nodes are the machines of the embedded cloud, their pods real processes of this machine.
The controller and the node agents have the rights that our manifests give them, and no others.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import httpx
import yaml

from gpufleet.clusters.kubernetes.rendering.rbac import CONTROLLER, NODE_AGENT, SYSTEM_NAMESPACE
from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.settings import load_settings
from tools.demo.machines import Machines, Place
from tools.demo.metadata import MetadataService
from tools.kubernetes.access import write_kubeconfig
from tools.kubernetes.applying import apply
from tools.kubernetes.flags import Options
from tools.kubernetes.plane import ControlPlane

LOOK_SECONDS: Final = 0.1
OPERATOR: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}
"""Of the NVIDIA GPU Operator, whose work our nodes only pretend; rights of the controller are bound there."""


def kubeconfig(home: Path) -> Path:
    """There when the cluster is up and its nodes have joined."""
    return home / "kubernetes" / "kubeconfig"


def main(home: Path) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    folder = home / "kubernetes"
    with (
        ControlPlane(folder / "plane", Options(kwok=False)) as plane,
        plane.client() as api,
        plane.kubelet(folder / "nodes", [], _tell) as kubelet,
        MetadataService() as metadata,
    ):
        settings = load_settings(home)
        _make_room(api, home)
        agents = plane.account(SYSTEM_NAMESPACE, NODE_AGENT).client()
        place = Place(kubelet, agents, metadata, settings.file.fleet, [team.namespace for team in settings.teams])
        machines = Machines(SandboxCluster(home), place, _tell)
        machines.follow()
        write_kubeconfig(kubeconfig(home), plane.account(SYSTEM_NAMESPACE, CONTROLLER))
        while not stop.wait(LOOK_SECONDS):
            machines.follow()
        machines.stop()


def _make_room(api: httpx.Client, home: Path) -> None:
    """What a platform engineer does once: `gpufleet kubernetes manifests | kubectl apply --server-side -f -`."""
    command = [sys.executable, "-m", "gpufleet", "kubernetes", "manifests", "--home", str(home)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    apply(api, [OPERATOR, *yaml.safe_load_all(told)])


def _tell(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
