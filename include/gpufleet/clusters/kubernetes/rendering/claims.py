"""DRA: a claim that names the very devices that were planned, one request each, so that the kubelet gives no others.

A device's name is not told to a selector (CEL sees attributes only), so it is chosen by what its driver publishes about
it. Which attributes those are is configured: drivers differ, and change them while they are young.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpufleet.clusters.base import PodSpec
from gpufleet.clusters.kubernetes.config import DraConfig
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.rendering.names import Object
from gpufleet.errors import Refused
from gpufleet.model.snapshot import PodPlace

CLAIM: Final = "devices"
"""What the pod calls its claim."""
_API: Final = "resource.k8s.io/v1"


def claim(pod: PodSpec, namespace: str, labels: dict[str, str], config: DraConfig) -> Object:
    """The claim of one pod; it has the pod's name."""
    if pod.place.shares:
        raise Refused(f"Node {pod.place.node} gives devices by claims: it offers no shares for {pod.name}.")
    requests = [
        {"name": name, "exactly": {"deviceClassName": kind, "selectors": [{"cel": {"expression": expression}}]}}
        for name, kind, expression in _requests(pod.place, config)
    ]
    return {
        "apiVersion": _API,
        "kind": "ResourceClaim",
        "metadata": {"name": names.dns_label(pod.name), "namespace": namespace, "labels": labels},
        "spec": {"devices": {"requests": requests}},
    }


def _requests(place: PodPlace, config: DraConfig) -> Iterator[tuple[str, str, str]]:
    """(name, device class, expression)."""
    for gpu in place.gpus:
        yield f"gpu-{gpu}", config.gpu_class, config.gpu_expression.format(gpu=gpu)
    for number, held in enumerate(place.slices):
        start, profile = held.instance.start, held.instance.profile
        yield (
            f"slice-{number}",
            config.mig_class,
            config.mig_expression.format(gpu=held.gpu, profile=profile, start=start),
        )


def claim_of_pod(pod: PodSpec) -> Object:
    """In the pod's spec: which claim is meant."""
    return {"name": CLAIM, "resourceClaimName": names.dns_label(pod.name)}
