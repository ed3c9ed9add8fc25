"""What a pod is started with: its environment, its command, and where its files lie."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from socket import AF_INET, SOCK_STREAM, socket
from typing import Final

from gpufleet.errors import Temporary
from gpufleet.model.snapshot import PodPlace
from gpufleet.sandbox.records import Gang, Pod
from gpufleet.sandbox.runner import Start

LOOPBACK: Final = "127.0.0.1"
PORTS: Final = range(20_000, 32_000)
"""Below the range from which systems take ports for outgoing connections (from 32768 on Linux)."""
_TRIES: Final = 500
_INHERITED: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
"""All that a pod sees of the sandbox's own environment, and what stands in for it."""
_AS_IMAGES_DO: Final = {"PYTHONUNBUFFERED": "1"}
"""Python images set it too: what was printed before a kill must be in the log."""


@dataclass(frozen=True, slots=True)
class PodFiles:
    """Where the files of one pod lie."""

    home: Path
    work: Path
    log: Path
    control: Path
    device_memory: Path

    @classmethod
    def at(cls, home: Path, log: Path) -> PodFiles:
        return cls(home, home / "work", log, home / "control.json", home / "device-memory")


def start_of(gang: Gang, pod: Pod, files: PodFiles) -> Start:
    return Start(files.home, files.work, files.log, _command(pod), pod_environment(gang, pod, files))


def pod_environment(gang: Gang, pod: Pod, files: PodFiles) -> Mapping[str, str]:
    """What only the cluster knows wins over the container's own wishes, and those over what is inherited."""
    inherited = {name: os.environ.get(name, otherwise) for name, otherwise in _INHERITED.items()}
    return {
        **inherited,
        **_AS_IMAGES_DO,
        **dict(pod.ask.container.env),
        "RANK": str(pod.ask.rank),
        "WORLD_SIZE": str(len(gang.pods)),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(gang.master_port),
        "GPUFLEET_RENDEZVOUS_TOKEN": gang.rendezvous_token,
        "GPUFLEET_CONTROL_FILE": str(files.control),
        "GPUFLEET_DEVICES": devices_text(pod.ask.place),
        "GPUFLEET_NODE": pod.ask.place.node,
        "GPUFLEET_SERVE_PORT": str(pod.serve_port),
        "GPUFLEET_DEVICE_MEMORY_FILE": str(files.device_memory),
    }


def devices_text(place: PodPlace) -> str:
    """`0,1` for whole GPUs, `MIG:7/1g.10gb@6` for slices, `SHARE:3/500` for 500/1000 of GPU 3."""
    return ",".join(
        [
            *(str(gpu) for gpu in place.gpus),
            *(f"MIG:{held.gpu}/{held.instance}" for held in place.slices),
            *(f"SHARE:{share.gpu}/{share.milli}" for share in place.shares),
        ]
    )


def _command(pod: Pod) -> tuple[str, ...]:
    first, *rest = pod.ask.container.command
    return (sys.executable if first == "python" else first, *rest)


def can_start(start: Start) -> bool:
    """Whether the command is there at all, so that a gang with a wrong one starts no process."""
    command = start.command[0]
    if "/" in command:
        return os.access(start.work / command, os.X_OK)
    return shutil.which(command, path=start.environment["PATH"]) is not None


def free_port(taken: Container[int]) -> int:
    """A port of loopback that nobody listens on now and no pod of ours was promised."""
    rng = SystemRandom()
    for _ in range(_TRIES):
        port = rng.choice(PORTS)
        if port not in taken and is_free(port):
            return port
    raise Temporary(f"No free port was found between {PORTS.start} and {PORTS.stop}.")


def is_free(port: int) -> bool:
    with socket(AF_INET, SOCK_STREAM) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
