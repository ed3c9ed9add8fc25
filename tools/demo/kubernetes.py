"""`python -m tools.demo.kubernetes HOME`: a Kubernetes cluster under the fleet in HOME, until SIGTERM.

A real control plane; its nodes are the machines of the embedded cloud, their pods real processes of this machine.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import httpx

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
from gpufleet.clusters.kubernetes.rendering.tenancy import team_objects
from gpufleet.clusters.sandbox import SandboxCluster
from gpufleet.settings import Settings, load_settings
from tools.demo.machines import Machines, Place
from tools.demo.metadata import MetadataService
from tools.kubernetes.applying import apply
from tools.kubernetes.flags import Options
from tools.kubernetes.plane import ControlPlane

LOOK_SECONDS: Final = 0.1


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
        plane.client(root=True) as api,
        plane.kubelet(folder / "nodes", [], _tell) as kubelet,
        MetadataService() as metadata,
    ):
        settings = load_settings(home)
        _make_room(api, settings)
        place = Place(kubelet, api, metadata, settings.file.fleet, [team.namespace for team in settings.teams])
        machines = Machines(SandboxCluster(home), place, _tell)
        machines.follow()
        shutil.copyfile(plane.kubeconfig, kubeconfig(home))
        kubeconfig(home).chmod(0o600)
        while not stop.wait(LOOK_SECONDS):
            machines.follow()
        machines.stop()


def _make_room(api: httpx.Client, settings: Settings) -> None:
    """What `gpufleet kubernetes manifests` tells a platform engineer to apply."""
    apply(api, priority_classes(settings.file.fleet))
    for team in settings.teams:
        apply(api, team_objects(settings.file.fleet, team, settings.queues, (), PodConfig()))


def _tell(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
