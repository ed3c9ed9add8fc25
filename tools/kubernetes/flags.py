"""What each part of the control plane is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpufleet.sandbox.environment import LOOPBACK
from tools.kubernetes.certificates import Authority, Pair
from tools.kubernetes.families import Built

KWOK_NODE: Final = ("kwok.x-k8s.io/node", "fake")
"""The annotation of nodes that kwok plays; all others are left to whoever plays them."""
_STAGES: Final = (
    "kustomize/stage/node/fast/*",
    "kustomize/stage/node/heartbeat/*",
    "kustomize/stage/pod/fast/pod-ready*",
)
"""kwok's own; `pod-complete` would finish every Job at once, and its `pod-delete` tells no end."""
_OUR_STAGES: Final = Path(__file__).with_name("stages")
_SERVICES: Final = "10.0.0.0/24"


@dataclass(frozen=True, slots=True)
class Layout:
    """Files, ports (by the part's name) and certificates of one plane."""

    home: Path
    ports: dict[str, int]
    authority: Authority
    server: Pair
    root: Pair
    admin: Pair
    tokens: Pair


@dataclass(frozen=True, slots=True)
class Options:
    """What a test may want otherwise. Flags given here come last, so they win."""

    kwok: bool = True
    api_server: tuple[str, ...] = ()
    controller_manager: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()


PLAIN: Final = Options()


def commands(layout: Layout, options: Options, built: Built) -> dict[str, list[str]]:
    """Part -> its flags, in the order of their start."""
    found = {
        "etcd": _etcd(layout),
        "kube-apiserver": [*_api_server(layout), *options.api_server],
        "kube-scheduler": [*_scheduler(layout), *options.scheduler],
        "kube-controller-manager": [*_controller_manager(layout), *options.controller_manager],
    }
    return {**found, "kwok": _kwok(layout, built)} if options.kwok else found


def _etcd(layout: Layout) -> list[str]:
    client, peer = (f"http://{LOOPBACK}:{layout.ports[name]}" for name in ("etcd", "etcd-peer"))
    return [
        f"--data-dir={layout.home / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(layout: Layout) -> list[str]:
    ca = layout.authority.pair.certificate
    return [
        f"--etcd-servers=http://{LOOPBACK}:{layout.ports['etcd']}",
        f"--secure-port={layout.ports['kube-apiserver']}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={layout.home / 'certificates'}",
        f"--tls-cert-file={layout.server.certificate}",
        f"--tls-private-key-file={layout.server.key}",
        f"--client-ca-file={ca}",
        f"--service-account-key-file={layout.tokens.certificate}",
        f"--service-account-signing-key-file={layout.tokens.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={_SERVICES}",
        "--authorization-mode=RBAC",
        "--shutdown-watch-termination-grace-period=1s",
        "--allow-privileged=true",  # as on real clusters; Pod Security says in which namespaces
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={ca}",
        f"--kubelet-client-certificate={layout.root.certificate}",
        f"--kubelet-client-key={layout.root.key}",
    ]


def _scheduler(layout: Layout) -> list[str]:
    """Its own limit on calls is raised: the default 50 a second would be what a test measures."""
    return [*_client(layout), "--kube-api-qps=5000", "--kube-api-burst=5000"]


def _controller_manager(layout: Layout) -> list[str]:
    """Limits raised as the scheduler's: with the default 20 a second, 500 new nodes stay tainted for a minute."""
    return [
        *_client(layout),
        "--controllers=*,-nodeipam,-route",
        "--use-service-account-credentials=false",
        f"--service-account-private-key-file={layout.tokens.key}",
        f"--root-ca-file={layout.authority.pair.certificate}",
        "--kube-api-qps=500",
        "--kube-api-burst=500",
    ]


def _client(layout: Layout) -> list[str]:
    return [f"--kubeconfig={layout.home / 'root.kubeconfig'}", "--leader-elect=false", "--secure-port=0"]


def _kwok(layout: Layout, built: Built) -> list[str]:
    stages = [path for pattern in _STAGES for path in built.kept("kwok", pattern)] + sorted(_OUR_STAGES.glob("*.yaml"))
    key, value = KWOK_NODE
    return [
        f"--kubeconfig={layout.home / 'root.kubeconfig'}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={key}={value}",
        "--cidr=10.244.0.0/16",
        "--node-ip=10.0.0.9",
        f"--server-address={LOOPBACK}:{layout.ports['kwok']}",
        *(f"--config={path}" for path in stages),
    ]
