"""What a pod's process finds in its environment: its rank, the others, and the names that launchers know them by."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.kubernetes.config import PORTS, PodConfig
from gpufleet.clusters.kubernetes.rendering.names import digest, dns_label, service_name
from gpufleet.clusters.kubernetes.rendering.resources import share_environment
from gpufleet.model.hardware import Exactness, Node
from gpufleet.model.snapshot import PodPlace

CONTROL_FOLDER: Final = "/etc/gpufleet"
CONTROL_FILE: Final = f"{CONTROL_FOLDER}/control"
HOSTFILE: Final = f"{CONTROL_FOLDER}/hostfile"
_AS_IMAGES_DO: Final = {"PYTHONUNBUFFERED": "1"}
"""Python images set it too: what was printed before a kill must be in the log."""
_MPI_HOSTFILES: Final = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "I_MPI_HYDRA_HOST_FILE")
"""Open MPI 4 and 5, Intel MPI."""


def gang_name(gang: GangSpec) -> str:
    """Of the Service through which the ranks find each other."""
    return service_name(f"{gang.job}-{gang.attempt}")


def port_of(text: str) -> int:
    """The same for the same text, so that pods that share one address seldom meet."""
    return PORTS[int(digest(text), 16) % len(PORTS)]


def host_of(gang: GangSpec, pod: PodSpec) -> str:
    """The DNS name of a pod inside the cluster, whatever the cluster's domain is called."""
    return f"{dns_label(pod.name)}.{gang_name(gang)}.{gang.namespace}.svc"


def environment(gang: GangSpec, pod: PodSpec, node: Node, config: PodConfig) -> Mapping[str, str]:
    """What only the cluster knows wins over the container's own wishes."""
    own = {**_AS_IMAGES_DO, **dict(pod.container.env)}
    return {**own, **_place(pod, node), **_ranks(gang, pod), **_token(gang, config)}


def _place(pod: PodSpec, node: Node) -> Mapping[str, str]:
    """The devices are told only where the kubelet gives the very ones that were planned."""
    exact = node.exactness is Exactness.DEVICE
    return {
        "GPUFLEET_CONTROL_FILE": CONTROL_FILE,
        "GPUFLEET_NODE": node.name,
        "GPUFLEET_SERVE_PORT": str(port_of(pod.name)),
        **({"GPUFLEET_DEVICES": devices_text(pod.place)} if exact else {}),
        **share_environment(pod.place, node),
    }


def devices_text(place: PodPlace) -> str:
    """`0,1` for whole GPUs, `MIG:7/1g.10gb@6` for slices, `SHARE:3/500` for 500/1000 of GPU 3; as the sandbox says it."""
    whole = [str(gpu) for gpu in place.gpus]
    slices = [f"MIG:{held.gpu}/{held.instance}" for held in place.slices]
    return ",".join([*whole, *slices, *(f"SHARE:{share.gpu}/{share.milli}" for share in place.shares)])


def _ranks(gang: GangSpec, pod: PodSpec) -> Mapping[str, str]:
    """For a process per pod, for torchrun (a process per GPU), for JAX and for MPI."""
    first = min(gang.pods, key=lambda other: other.rank)
    address = "127.0.0.1" if len(gang.pods) == 1 else host_of(gang, first)
    port, size, rank = str(port_of(f"{gang.job}-{gang.attempt}")), str(len(gang.pods)), str(pod.rank)
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "PET_NNODES": size,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": str(slots(pod)),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
        "JAX_COORDINATOR_ADDRESS": f"{address}:{port}",
        "JAX_NUM_PROCESSES": size,
        "JAX_PROCESS_ID": rank,
        **(dict.fromkeys(_MPI_HOSTFILES, HOSTFILE) if pod is first and len(gang.pods) > 1 else {}),
    }


def slots(pod: PodSpec) -> int:
    """Processes of a launcher in this pod: one for each GPU, slice or share."""
    place = pod.place
    return max(1, len(place.gpus) + len(place.slices) + len(place.shares))


def hostfile(gang: GangSpec) -> str:
    """One line a pod, in rank order, as Open MPI reads it."""
    ranked = sorted(gang.pods, key=lambda pod: pod.rank)
    return "".join(f"{host_of(gang, pod)} slots={slots(pod)}\n" for pod in ranked)


def _token(gang: GangSpec, config: PodConfig) -> Mapping[str, str]:
    if not config.rendezvous_key:
        return {}
    seed = f"{gang.team}/{gang.job}/{gang.attempt}".encode()
    return {"GPUFLEET_RENDEZVOUS_TOKEN": hmac.digest(config.rendezvous_key.encode(), seed, "sha256").hex()}
