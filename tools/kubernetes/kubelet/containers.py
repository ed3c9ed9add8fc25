"""What a pod's process is started with: command, environment and files, read from the pod as a kubelet reads it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpufleet.sandbox.runner import Start

Raw = Mapping[str, Any]
Fetch = Callable[[str], Raw | None]
"""Path of an API object -> the object, None when there is none."""

_INHERITED: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
"""All that a process sees of our own environment, and what stands in for it: an image would bring these."""
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)")
_KEYED: Final = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")
_ALL_ADDRESSES: Final = "0.0.0.0"
_TOKENS: Final = "kube-api-access-"
"""The volume that admission adds for the service account; no process of ours calls the API with it."""


class CannotRun(Exception):
    """This kubelet, or any, cannot start that pod: a reason as kubelets name it, and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the files of one pod lie; `home` is the runner's."""

    root: Path
    home: Path = field(init=False)
    work: Path = field(init=False)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        for name in ("home", "work", "log"):
            object.__setattr__(self, name, self.root / name)

    def volume(self, name: str) -> Path:
        return self.root / "volumes" / name

    def make(self) -> None:
        for folder in (self.home, self.work):
            folder.mkdir(parents=True, exist_ok=True)


def address_of(hostname: str, subdomain: str, namespace: str) -> str:
    """A loopback address of the pod's own, the same for the same DNS name: it stands in for a cluster's network."""
    seed = hashlib.sha256(f"{hostname}.{subdomain}.{namespace}".encode()).digest()
    return f"127.{1 + seed[0] % 254}.{seed[1]}.{1 + seed[2] % 254}"


def pod_address(pod: Raw) -> str:
    spec, metadata = pod["spec"], pod["metadata"]
    return address_of(spec.get("hostname", metadata["name"]), spec.get("subdomain", ""), metadata["namespace"])


def start_of(pod: Raw, folders: Folders, fetch: Fetch) -> Start:
    """Everything needed to start it; its volumes are written on the way. Raises CannotRun."""
    container = _only_container(pod)
    paths = _mounts(pod, container, folders, fetch)
    environment = _environment(pod, container, fetch)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise CannotRun("CreateContainerError", "no command is given, and images are not run here")
    local = Localised(pod, paths)
    own = {name: local(value) for name, value in environment.items()}
    command = tuple(local(_expanded(word, environment)) for word in words)
    inherited = {name: os.environ.get(name, otherwise) for name, otherwise in _INHERITED.items()}
    everything = {**inherited, **own}
    return Start(folders.home, folders.work, folders.log, _found(command, everything["PATH"]), everything)


def _only_container(pod: Raw) -> Raw:
    spec = pod["spec"]
    if len(spec["containers"]) != 1 or spec.get("initContainers"):
        raise CannotRun("CreateContainerError", "this kubelet runs pods of one container, without init containers")
    if spec.get("restartPolicy", "Always") != "Never":
        raise CannotRun("CreateContainerError", "this kubelet runs pods of restartPolicy Never")
    container: Raw = spec["containers"][0]
    return container


def _found(command: tuple[str, ...], path: str) -> tuple[str, ...]:
    """`python` is the one that runs us, as an image would bring one of its own."""
    first, *rest = command
    first = sys.executable if first == "python" else first
    if shutil.which(first, path=path) is None:
        raise CannotRun("StartError", f'exec: "{first}": executable file not found in $PATH')
    return (first, *rest)


@dataclass(frozen=True, slots=True)
class Localised:
    """Makes words of the pod true on this machine: paths of its mounts, DNS names of its gang, its own addresses."""

    pod: Raw
    paths: Mapping[str, Path]

    def __call__(self, word: str) -> str:
        if word == _ALL_ADDRESSES:  # of the pod's network, which has one
            return pod_address(self.pod)
        for mount, local in self.paths.items():
            if word == mount or word.startswith(f"{mount}/"):
                word = f"{local}{word[len(mount) :]}"
        return self._names().sub(lambda m: address_of(m[1], self._subdomain, self._namespace), word)

    def _names(self) -> re.Pattern[str]:
        if not self._subdomain:
            return re.compile(r"(?!)")
        domain = rf"{re.escape(self._subdomain)}\.{re.escape(self._namespace)}\.svc(?:\.cluster\.local)?"
        return re.compile(rf"\b([a-z0-9][a-z0-9-]*)\.{domain}\b")

    @property
    def _subdomain(self) -> str:
        return str(self.pod["spec"].get("subdomain", ""))

    @property
    def _namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])


def _environment(pod: Raw, container: Raw, fetch: Fetch) -> dict[str, str]:
    """In the order of the pod; a value may name those before it as $(NAME), `$$` is a dollar sign."""
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found |= {f"{source.get('prefix', '')}{key}": text for key, text in _all_of(pod, source, fetch).items()}
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            value = _from(pod, variable["valueFrom"], fetch)
        else:
            value = _expanded(variable.get("value", ""), found)
        if value is not None:
            found[variable["name"]] = value
    return found


def _expanded(text: str, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else known.get(m[1], m[0]), text)


def _all_of(pod: Raw, source: Raw, fetch: Fetch) -> Mapping[str, str]:
    if "secretRef" in source:
        return _data(pod, "secrets", source["secretRef"], fetch)
    return _data(pod, "configmaps", source["configMapRef"], fetch)


def _from(pod: Raw, source: Raw, fetch: Fetch) -> str | None:
    if "fieldRef" in source:
        return field_of(pod, source["fieldRef"]["fieldPath"])
    for name, kind in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
        if name in source:
            return _key(pod, kind, source[name], fetch)
    raise CannotRun("CreateContainerConfigError", f"this kubelet does not know {', '.join(source)} of an environment")


def _key(pod: Raw, kind: str, ask: Raw, fetch: Fetch) -> str | None:
    data = _data(pod, kind, ask, fetch)
    if ask["key"] not in data and not ask.get("optional"):
        raise CannotRun("CreateContainerConfigError", f'couldn\'t find key {ask["key"]} in {kind[:-1]} "{ask["name"]}"')
    return data.get(ask["key"])


def _data(pod: Raw, kind: str, ask: Raw, fetch: Fetch) -> Mapping[str, str]:
    """Texts of a Secret or ConfigMap; empty when it is not there and need not be."""
    name = ask.get("name") or ask["secretName"]
    found = fetch(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind}/{name}")
    if found is None:
        if ask.get("optional"):
            return {}
        raise CannotRun("CreateContainerConfigError", f'{kind[:-1]} "{name}" not found')
    data: Mapping[str, str] = found.get("data") or {}
    return {key: base64.b64decode(text).decode() for key, text in data.items()} if kind == "secrets" else data


def field_of(pod: Raw, path: str) -> str:
    """What the downward API says of a field; empty for a label or annotation that is not there. Raises CannotRun."""
    metadata = pod["metadata"]
    if match := _KEYED.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    address = pod_address(pod)
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.podIP": address,
        "status.podIPs": address,
        "status.hostIP": "127.0.0.1",
    }
    if path not in known:
        raise CannotRun("CreateContainerConfigError", f"this kubelet does not know the field {path}")
    return str(known[path])


def _mounts(pod: Raw, container: Raw, folders: Folders, fetch: Fetch) -> dict[str, Path]:
    """Path inside the container -> folder here, longest path first. Writes what is in the volumes."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or () if not _is_token(volume)}
    for name, volume in volumes.items():
        folders.volume(name).mkdir(parents=True, exist_ok=True)
        for path, text in _files(pod, volume, fetch):
            write_file(folders.volume(name) / path, text)
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] in volumes]
    mounts.sort(key=lambda mount: -len(mount["mountPath"]))
    return {mount["mountPath"].rstrip("/"): folders.volume(mount["name"]) for mount in mounts}


def _is_token(volume: Raw) -> bool:
    return "projected" in volume and str(volume["name"]).startswith(_TOKENS)


def _files(pod: Raw, volume: Raw, fetch: Fetch) -> Iterator[tuple[str, str]]:
    if "emptyDir" in volume:
        return
    if "downwardAPI" in volume:
        yield from downward_files(pod, volume)
    elif "secret" in volume:
        yield from _data(pod, "secrets", volume["secret"], fetch).items()
    elif "configMap" in volume:
        yield from _data(pod, "configmaps", volume["configMap"], fetch).items()
    else:
        kinds = ", ".join(sorted(volume.keys() - {"name"}))
        raise CannotRun("CreateContainerError", f'this kubelet has no volumes of kind {kinds} ("{volume["name"]}")')


def downward_files(pod: Raw, volume: Raw) -> Iterator[tuple[str, str]]:
    """Path below the volume -> text, as the pod is now."""
    for item in volume["downwardAPI"].get("items") or ():
        if "fieldRef" not in item:
            raise CannotRun(
                "CreateContainerConfigError", "this kubelet shows fields of the pod only, not its resources"
            )
        yield item["path"], field_of(pod, item["fieldRef"]["fieldPath"])


def write_file(path: Path, text: str) -> None:
    """Whole or not at all: a reader never meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text)
    draft.replace(path)
