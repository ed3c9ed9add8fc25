"""Kueue beside a control plane: its CRDs, its webhooks on a local address, its process. Ended before the plane is.

Its certificate rotator wants certificates of its own making under fixed names; it keeps those that it finds there. Its
webhooks fail closed, so they are taken away with it.
"""

from __future__ import annotations

import base64
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from gpufleet.sandbox.environment import LOOPBACK, free_port
from tools.kubernetes.applying import apply, path_of
from tools.kubernetes.certificates import Authority
from tools.kubernetes.component import Component
from tools.kubernetes.families import already_built
from tools.kubernetes.plane import ControlPlane

NAMESPACE: Final = "kueue-system"
MANAGED: Final = "kueue-managed"
"""Label of a namespace whose pods Kueue looks at."""
_SERVER: Final = f"kueue-webhook-service.{NAMESPACE}.svc"
_SECRET: Final = "kueue-webhook-server-cert"
_CONVERTED: Final = ("localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters")
_HOOKS: Final = ("pod", "resourceflavor", "clusterqueue", "workload", "cohort")
_GOES_WITHIN: Final = 60.0
"""Seconds for all that is Kueue's to be gone."""
Raw = dict[str, Any]


@contextmanager
def kueue(plane: ControlPlane) -> Iterator[None]:
    """Kueue, ready to admit; afterwards neither it nor its webhooks are there."""
    built = already_built("kueue")
    home = plane.home / "kueue"
    ports = _ports()
    files = _certificates(home)
    process = Component("kueue", [str(built.command("kueue")), *_flags(home, files, ports, plane)], home / "kueue.log")
    definitions = [
        yaml.safe_load(path.read_text()) for path in built.kept("kueue", "config/components/crd/bases/*.yaml")
    ]
    (manifests,) = built.kept("kueue", "config/components/webhook/manifests.yaml")
    hooks = [_local_hooks(one, ports["webhook"]) for one in yaml.safe_load_all(manifests.read_text())]
    with plane.client() as client:
        _prepare(client, files, [_converted(one, files, ports["webhook"]) for one in definitions])
        try:
            apply(client, hooks)
            process.start()
            process.wait_for(lambda: _is_ready(ports["health"]))
            yield
        finally:
            _remove(client, definitions)
            for one in hooks:
                client.delete(path_of(one))
            process.ask_to_stop()
            process.wait()


def _ports() -> dict[str, int]:
    taken: set[int] = set()
    for _ in range(3):
        taken.add(free_port(taken))
    return dict(zip(("health", "metrics", "webhook"), sorted(taken), strict=True))


def _certificates(home: Path) -> Path:
    """A folder with ca.crt, ca.key, tls.crt, tls.key, valid for more than the 90 days that the rotator looks ahead."""
    folder = home / "certificates"
    authority = Authority(folder, "kueue-ca", names=["kueue-ca"], rsa=True)
    pair = authority.issue("tls", "kueue-ca", names=[_SERVER, LOOPBACK])
    served = home / "served"
    served.mkdir(parents=True, exist_ok=True)
    for file in (authority.pair.certificate, authority.pair.key, pair.certificate, pair.key):
        shutil.copy(file, served / file.name)
    return served


def _flags(home: Path, files: Path, ports: dict[str, int], plane: ControlPlane) -> list[str]:
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{ports['health']}"},
        "metrics": {"bindAddress": f"{LOOPBACK}:{ports['metrics']}"},
        "webhook": {"host": LOOPBACK, "port": ports["webhook"], "certDir": str(files)},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 200, "burst": 400},
        "internalCertManagement": {"enable": True},
        "integrations": {"frameworks": ["pod"]},
        "featureGates": {"VisibilityOnDemand": False},
        "managedJobsNamespaceSelector": {"matchLabels": {MANAGED: "true"}},
    }
    file = home / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    return ["--config", str(file), "--kubeconfig", str(plane.root_kubeconfig)]


def _prepare(client: httpx.Client, files: Path, definitions: list[Raw]) -> None:
    data = {file.name: base64.b64encode(file.read_bytes()).decode() for file in sorted(files.iterdir())}
    secret = {"name": _SECRET, "namespace": NAMESPACE}
    apply(
        client,
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": data},
            *definitions,
        ],
    )


def _converted(definition: Raw, files: Path, port: int) -> Raw:
    """The rotator patches the conversion of these, and wants it there."""
    if definition["spec"]["names"]["plural"] not in _CONVERTED:
        definition["spec"].pop("conversion", None)
        return definition
    client_config = {"url": f"https://{LOOPBACK}:{port}/convert", "caBundle": _bundle(files)}
    webhook = {"clientConfig": client_config, "conversionReviewVersions": ["v1"]}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return definition


def _bundle(files: Path) -> str:
    return base64.b64encode((files / "ca.crt").read_bytes()).decode()


def _local_hooks(configuration: Raw, port: int) -> Raw:
    """Only the hooks that are needed, on this machine; pods are looked at in namespaces that ask for it."""
    kind = configuration["kind"].removesuffix("WebhookConfiguration").lower()
    kept = [hook for hook in configuration["webhooks"] if hook["name"].partition(".")[0][1:] in _HOOKS]
    for hook in kept:
        path = hook["clientConfig"].pop("service")["path"]
        hook["clientConfig"]["url"] = f"https://{LOOPBACK}:{port}{path}"
        if "pod." in hook["name"]:
            hook["namespaceSelector"] = {"matchLabels": {MANAGED: "true"}}
    return {**configuration, "metadata": {"name": f"kueue-{kind}-webhook-configuration"}, "webhooks": kept}


def _remove(client: httpx.Client, definitions: list[Raw]) -> None:
    """While it still runs: it takes its finalizers off, and converts what the API reads to delete it."""
    paths = [path_of(one) for one in definitions]
    for path in paths:
        client.delete(path)
    until = time.monotonic() + _GOES_WITHIN
    while any(client.get(path).is_success for path in paths) and time.monotonic() < until:
        time.sleep(0.1)


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://{LOOPBACK}:{port}/readyz", trust_env=False).is_success
    except httpx.HTTPError:
        return False
