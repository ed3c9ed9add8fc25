"""What an installation may choose about the pods of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PORTS: Final = range(20_000, 32_000)
"""Below the range from which systems take ports for outgoing connections (from 32768 on Linux)."""


_DRA: Final = 'device.attributes["gpu.nvidia.com"]'


@dataclass(frozen=True, slots=True)
class DraConfig:
    """How one device is told from all others in a claim; `{gpu}`, `{profile}`, `{start}` are filled in.

    Each expression tests `type` first: an attribute that a device lacks would stop the pod on every node.
    """

    gpu_class: str = "gpu.nvidia.com"
    mig_class: str = "mig.nvidia.com"
    gpu_expression: str = f'{_DRA}.type == "gpu" && {_DRA}.minor == {{gpu}}'
    mig_expression: str = (
        f'{_DRA}.type == "mig" && {_DRA}.parentMinor == {{gpu}} && '
        f'{_DRA}.profile == "{{profile}}" && {_DRA}.placementStart == {{start}}'
    )


@dataclass(frozen=True, slots=True)
class PodConfig:
    """How pods look, where the job itself says nothing. Memory in MiB, times in seconds."""

    image: str = ""
    """Of jobs that name none; empty = a job must name one."""
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = "gpufleet-job"
    """In each team's namespace; workload identity of a cloud is bound to it."""
    identity_annotations: Mapping[str, str] = field(default_factory=dict)
    """Of that account: what binds it to a cloud's identity, such as a role that may use the checkpoint store."""
    metadata_service: bool = False
    """Whether pods may reach the cloud's metadata service; workload identity on GKE needs it, elsewhere it leaks."""
    callers: tuple[str, ...] = ()
    """Namespaces whose pods may call replicas, such as that of the gateway."""
    checkpoint_secret: str = "gpufleet-checkpoints"
    """Its keys become environment variables, such as those of a store's credentials; a team without it needs none."""
    rendezvous_key: str = ""
    """Makes the ranks' shared token, the same in every try; empty = no token, only the NetworkPolicy guards."""
    user: int = 1000
    """Numeric id of user and group in the container; never root."""
    shared_memory_mib: int = 65_536
    """Most of /dev/shm where the job asks for no memory; else it is half of what it asks for."""
    taints: tuple[str, ...] = ("nvidia.com/gpu",)
    """Keys of taints that GPU nodes carry to keep other work away."""
    lost_after: int = 30
    """From the API's first sign that a node is lost to the deletion of its pods; the API's own default is 300."""
    dra: DraConfig = DraConfig()
    templates: Mapping[str, Any] = field(default_factory=dict)
    """By team, a part of a pod that is laid over the rendered one, within the policy of `overrides`."""
    registries: tuple[str, ...] = ()
    """Beginnings of image names that teams may use; empty = any."""
    fabric_resources: Mapping[str, str] = field(default_factory=dict)
    """By fabric, the extended resource of its devices where the node's plugin calls it otherwise."""
    fabric_images: Mapping[str, str] = field(default_factory=dict)
    """By fabric, the image of the helper that it needs beside each pod (tcpx, tcpxo)."""
    fabric_networks: tuple[str, ...] = ()
    """Names of the networks for GPUs, in the order of the interfaces eth1, eth2, ...; empty = vpc1, vpc2, ..."""
