"""What a team may set in its part of a pod, as lists of what is allowed: what is not named here is refused.

So a field that Kubernetes invents tomorrow stays closed until someone has looked at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gpufleet.clusters.kubernetes.rendering.names import MAIN, Object
from gpufleet.errors import Permanent

MAIN_FIELDS: Final = ("imagePullPolicy", "livenessProbe", "readinessProbe", "startupProbe", "workingDir")
MAIN_LISTS: Final = ("env", "envFrom", "volumeMounts")
_BESIDE: Final = (*MAIN_FIELDS, *MAIN_LISTS, "args", "command", "image", "name", "resources", "restartPolicy")
_SPEC: Final = (
    "containers", "dnsConfig", "dnsPolicy", "hostAliases", "imagePullSecrets", "initContainers", "securityContext",
    "tolerations", "volumes",
)  # fmt: skip
_SECURITY: Final = ("fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsUser", "supplementalGroups")
_VOLUMES: Final = ("configMap", "emptyDir", "ephemeral", "persistentVolumeClaim", "secret")
_MOUNT: Final = ("mountPath", "name", "readOnly", "subPath")
_HOST_RESOURCES: Final = ("cpu", "ephemeral-storage", "memory")
_STEERING: Final = (
    "gpufleet.io",
    "k8s.io",
    "x-k8s.io",
    "kubernetes.io",
    "gke.io",
    "nvidia.com",
    "volcano.sh",
    "kai.scheduler",
)
"""Domains whose labels and annotations steer us, the node or a scheduler."""
_OUR_VARIABLES: Final = ("GPUFLEET_", "JAX_", "MASTER_", "PET_", "RANK", "WORLD_SIZE")
_OUR_FOLDERS: Final = ("/dev", "/etc/gpufleet", "/usr/local/nvidia", "/run/tcpx")
_NODE_TAINTS: Final = "node.kubernetes.io/"
_WHY: Final[Mapping[str, str]] = {
    "affinity": "the place of a pod is the plan's",
    "hostIPC": "the node's shared memory is not the team's",
    "hostNetwork": "the node's network is not the team's",
    "hostPID": "the node's processes are not the team's",
    "hostPath": "the node's files are not the team's",
    "nodeName": "the place of a pod is the plan's",
    "nodeSelector": "the place of a pod is the plan's",
    "priorityClassName": "priority is set with the job",
    "schedulerName": "a node belongs to one scheduler",
    "securityContext": "no container of a team is privileged or gets more rights",
    "serviceAccountName": "the account is set up with the team's namespace",
}
Check = Callable[[Any, str], Iterator[str]]


def check_image(image: str, registries: tuple[str, ...]) -> None:
    """Raises Permanent for an image from elsewhere."""
    for refusal in _image(image, "image", registries):
        raise Permanent(refusal)


def refusals(pod: Object, override: Mapping[str, Any], registries: tuple[str, ...]) -> Iterator[str]:
    """One sentence for each field outside the policy, naming it."""
    yield from _keys(override, "", ("metadata", "spec"))
    metadata, spec = _mapping(override, "", "metadata"), _mapping(override, "", "spec")
    yield from _keys(metadata, "metadata", ("annotations", "labels"))
    for kind in ("annotations", "labels"):
        yield from _steering(_mapping(metadata, "metadata", kind), f"metadata.{kind}")
    yield from _keys(spec, "spec", _SPEC)
    yield from _security(_mapping(spec, "spec", "securityContext"), "spec.securityContext")
    yield from _each(spec, "tolerations", _toleration)
    yield from _each(spec, "volumes", lambda volume, where: _volume(volume, where, _names(pod, "volumes")))
    taken = {MAIN} | _names(pod, "initContainers")
    for kind in ("containers", "initContainers"):
        yield from _each(spec, kind, lambda found, where: _container(found, where, taken, registries))


def _names(pod: Object, kind: str) -> set[str]:
    return {item["name"] for item in pod["spec"].get(kind, ())}


def _mapping(within: Mapping[str, Any], where: str, key: str) -> Mapping[str, Any]:
    found = within.get(key) or {}
    if not isinstance(found, Mapping):
        raise Permanent(f"{where}.{key} must be a mapping.".removeprefix("."))
    return found


def _each(within: Mapping[str, Any], key: str, check: Check, where: str = "spec") -> Iterator[str]:
    found = within.get(key) or ()
    if not isinstance(found, list | tuple) or not all(isinstance(item, Mapping) for item in found):
        raise Permanent(f"{where}.{key} must be a list of mappings.")
    for item in found:
        yield from check(item, f"{where}.{key}[{item.get('name') or item.get('key') or ''}]")


def _keys(found: Mapping[str, Any], where: str, allowed: tuple[str, ...]) -> Iterator[str]:
    for key in sorted(set(found) - set(allowed)):
        why = f": {_WHY[key]}" if key in _WHY else ""
        yield f"{where}.{key} is not a field that a team may set{why}.".removeprefix(".")


def _steering(found: Mapping[str, Any], where: str) -> Iterator[str]:
    for key in sorted(found):
        domain = key.partition("/")[0] if "/" in key else ""
        if any(domain == steering or domain.endswith(f".{steering}") for steering in _STEERING):
            yield f"{where}.{key} is not for a team to set: {domain} steers where and how a pod runs."


def _security(found: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from _keys(found, where, _SECURITY)
    for key in ("fsGroup", "runAsGroup", "runAsUser"):
        if key in found and (not isinstance(found[key], int) or found[key] < 1):
            yield f"{where}.{key} must be a number of at least 1: nobody runs as root."


def _toleration(found: Mapping[str, Any], where: str) -> Iterator[str]:
    key = found.get("key") or ""
    if not key:
        yield f"{where} has no key: it would tolerate every taint."
    elif str(key).startswith(_NODE_TAINTS):
        yield f"{where} is not for a team to set: these taints say that a node must not be used."


def _volume(found: Mapping[str, Any], where: str, taken: set[str]) -> Iterator[str]:
    yield from _keys(found, where, ("name", *_VOLUMES))
    if found.get("name") in taken:
        yield f"{where} has a name that is ours: give it another."


def _container(found: Mapping[str, Any], where: str, taken: set[str], registries: tuple[str, ...]) -> Iterator[str]:
    is_main = found.get("name") == MAIN and ".containers[" in where
    if not found.get("name") or (not is_main and found["name"] in taken):
        yield f"{where} needs a name of its own."
    yield from _keys(found, where, ("name", *MAIN_FIELDS, *MAIN_LISTS) if is_main else _BESIDE)
    if not is_main:
        yield from _image(str(found.get("image", "")), f"{where}.image", registries)
        yield from _resources(_mapping(found, where, "resources"), f"{where}.resources")
    yield from _each(found, "env", _variable, where)
    yield from _each(found, "volumeMounts", _volume_mount, where)
    yield from _each(found, "envFrom", lambda item, at: _keys(item, at, ("configMapRef", "prefix", "secretRef")), where)


def _image(image: str, where: str, registries: tuple[str, ...]) -> Iterator[str]:
    if not image:
        yield f"{where} must name an image."
    elif registries and not image.startswith(registries):
        yield f"{where} '{image}' is from a registry that is not allowed; allowed are {', '.join(registries)}."


def _resources(found: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from _keys(found, where, ("limits", "requests"))
    for kind in ("limits", "requests"):
        for key in sorted(set(_mapping(found, where, kind)) - set(_HOST_RESOURCES)):
            yield f"{where}.{kind}.{key} is not a field that a team may set: devices are asked for with the job."


def _variable(found: Mapping[str, Any], where: str) -> Iterator[str]:
    if not found.get("name"):
        yield f"{where} needs a name."
    elif str(found["name"]).startswith(_OUR_VARIABLES):
        yield f"{where} is a variable that the cluster sets: leave it out."


def _volume_mount(found: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from _keys(found, where, _MOUNT)
    path = str(found.get("mountPath", ""))
    if any(f"{path}/".replace("//", "/").startswith(f"{folder}/") for folder in _OUR_FOLDERS) or ".." in path:
        yield f"{where}.mountPath {path} lies in a folder that is ours."
