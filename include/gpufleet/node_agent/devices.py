"""Which devices the kubelet gave to which pod: its pod-resources socket (gRPC, `v1.PodResourcesLister`).

The few messages that are needed are described here as the kubelet's `api.proto` has them; fields that are not named
are passed over.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

SOCKET: Final = "unix:///var/lib/kubelet/pod-resources/kubelet.sock"
METHOD: Final = "/v1.PodResourcesLister/List"
_SECONDS: Final = 5.0
_NVIDIA: Final = "nvidia.com/"
_GPU_LINE: Final = re.compile(r"GPU (\d+):.*\(UUID: (GPU-[^)]+)\)")
_MIG_LINE: Final = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")
_MESSAGES: Final[Mapping[str, tuple[tuple[int, str, str], ...]]] = {
    "ListPodResourcesRequest": (),
    "ContainerDevices": ((1, "resource_name", ""), (2, "device_ids", "*")),
    "ContainerResources": ((1, "name", ""), (2, "devices", "ContainerDevices")),
    "PodResources": ((1, "name", ""), (2, "namespace", ""), (3, "containers", "ContainerResources")),
    "ListPodResourcesResponse": ((1, "pod_resources", "PodResources"),),
}
"""By message: (number, field, what): nothing = a string, `*` = strings, else messages of that kind."""


@dataclass(frozen=True, slots=True)
class Card:
    """A device behind a UUID: a whole GPU, or a slice of one."""

    gpu: int
    profile: str = ""

    def __str__(self) -> str:
        return f"MIG:{self.gpu}/{self.profile}" if self.profile else str(self.gpu)


@cache
def messages() -> Mapping[str, Any]:
    """The message classes by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package="v1", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, what in fields:
            told = message.field.add(name=field, number=number)
            told.label = told.LABEL_REPEATED if what else told.LABEL_OPTIONAL
            told.type = told.TYPE_MESSAGE if what not in ("", "*") else told.TYPE_STRING
            if what not in ("", "*"):
                told.type_name = f".v1.{what}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in _MESSAGES}


def given(socket: str = SOCKET) -> dict[tuple[str, str], tuple[str, ...]]:
    """By (namespace, pod), the ids of its NVIDIA devices. Raises OSError when the kubelet does not answer."""
    import grpc

    known = messages()
    try:
        with grpc.insecure_channel(socket) as channel:
            ask = channel.unary_unary(
                METHOD,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=known["ListPodResourcesResponse"].FromString,
            )
            answer = ask(known["ListPodResourcesRequest"](), timeout=_SECONDS)
    except grpc.RpcError as e:
        raise OSError(f"the kubelet's pod-resources socket does not answer: {e.code().name}") from None
    return {(pod.namespace, pod.name): tuple(_ids(pod)) for pod in answer.pod_resources}


def _ids(pod: Any) -> Iterable[str]:
    for container in pod.containers:
        for devices in container.devices:
            if devices.resource_name.startswith(_NVIDIA):
                yield from devices.device_ids


def inventory(listing: str) -> dict[str, Card]:
    """UUIDs from what `nvidia-smi -L` prints: each GPU, and below it its MIG devices."""
    found: dict[str, Card] = {}
    gpu = -1
    for line in listing.splitlines():
        if whole := _GPU_LINE.match(line):
            gpu = int(whole[1])
            found[whole[2]] = Card(gpu)
        elif (part := _MIG_LINE.match(line)) and gpu >= 0:
            found[part[2]] = Card(gpu, part[1])
    return found


def told(ids: Iterable[str], cards: Mapping[str, Card]) -> str:
    """As our annotation has it: `0,1`, or `MIG:3/1g.10gb`. A replica of a shared GPU (`GPU-x::2`) is that GPU."""
    found = {cards[uuid] for uuid in (one.partition("::")[0] for one in ids) if uuid in cards}
    return ",".join(str(card) for card in sorted(found, key=lambda card: (card.gpu, card.profile)))


def read_back(socket: str = SOCKET, command: tuple[str, ...] = ("nvidia-smi", "-L")) -> dict[tuple[str, str], str]:
    """The devices of every pod of this node, as annotations have them."""
    pods = {pod: ids for pod, ids in given(socket).items() if ids}
    if not pods:
        return {}
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout
    except (subprocess.SubprocessError, OSError) as e:
        raise OSError(f"{command[0]} does not list the GPUs: {e}") from None
    cards = inventory(listing)
    return {pod: told(ids, cards) for pod, ids in pods.items()}
