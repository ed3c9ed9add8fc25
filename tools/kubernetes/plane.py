"""A control plane on loopback: etcd, API server, scheduler, controller manager, and kwok for nodes that only pretend."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

import httpx

from gpufleet.sandbox.environment import LOOPBACK, free_port
from tools.kubernetes.access import Access, write_kubeconfig
from tools.kubernetes.certificates import Authority, Pair
from tools.kubernetes.component import Component
from tools.kubernetes.families import Built, already_built
from tools.kubernetes.flags import PLAIN, Layout, Options, commands
from tools.kubernetes.kubelet import Kubelet
from tools.kubernetes.nodes import Raw

USER: Final = "gpufleet-test-admin"
"""Whom our clients are: cluster-admin by a binding, and not of system:masters, whom the API server never throttles."""
WEEK: Final = 7 * 24 * 3600
_HTTP_OK: Final = 200
_READY: Final = {"etcd": "/health", "kube-apiserver": "/readyz", "kwok": "/healthz"}


class ControlPlane:
    """One control plane with its files in `home` and ports of its own.

    A plane that ran there before goes on: same objects, same ports, same authority; what was left of it ends.

    What it runs must have been built (`tools.kubernetes.build`): minutes are never spent in passing.
    `kubeconfig` and `access` are for clients under test, those of root (system:masters) for the plane's own parts.
    """

    def __init__(self, home: Path, options: Options = PLAIN) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self._layout = _lay_out(home)
        self.url = f"https://{LOOPBACK}:{self._layout.ports['kube-apiserver']}"
        self.access, self.root_access = (self._access(pair) for pair in (self._layout.admin, self._layout.root))
        self.root_kubeconfig = write_kubeconfig(home / "root.kubeconfig", self.root_access)
        self.kubeconfig = write_kubeconfig(home / "kubeconfig", self.access)
        self.parts = _components(
            self._layout, options, already_built("etcd", "kubernetes", *(["kwok"] if options.kwok else []))
        )

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when pods can be scheduled (about 5 s). Raises DidNotStart, and leaves nothing running then."""
        try:
            for name in ("etcd", "kube-apiserver"):
                self._start(name)
            self._admit_user()
            for name in self._clients:
                self._start(name)
            self._wait_for_controllers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Clients of the API first, then the API server, then etcd: each is still served while it leaves."""
        self._end(self._clients)
        self._end(["kube-apiserver"])
        self._end(["etcd"])

    def restart(self, name: str) -> None:
        """Stop one part politely and start it again on its port; returns when it is ready."""
        self._end([name])
        self._start(name)

    def kubelet(self, home: Path, nodes: Sequence[Raw], tell: Callable[[str], None] = print) -> Kubelet:
        """A kubelet for these nodes, yet to be started; it must be stopped before the plane."""
        serving = self._layout.authority.issue(f"kubelet-{home.name}", "gpufleet-test-kubelet", names=[LOOPBACK])
        return Kubelet(self.root_access, serving, home, nodes, tell)

    def account(self, namespace: str, name: str) -> Access:
        """A service account's own way in, for a week: what it may do is what its roles say."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        with self.client(root=True) as client:
            answer = client.post(path, json={**wanted, "spec": {"expirationSeconds": WEEK}}).raise_for_status()
        return replace(self.root_access, pair=None, token=answer.json()["status"]["token"])

    def client(self, *, root: bool = False) -> httpx.Client:
        """A plain HTTP client of the API for tests and helpers. Close it after use."""
        return (self.root_access if root else self.access).client()

    @property
    def _clients(self) -> list[str]:
        return [name for name in self.parts if name not in ("etcd", "kube-apiserver")]

    def _start(self, name: str) -> None:
        part = self.parts[name]
        part.start()
        if path := _READY.get(name):
            scheme = "https" if name == "kube-apiserver" else "http"
            url = f"{scheme}://{LOOPBACK}:{self._layout.ports[name]}"
            with replace(self.root_access, url=url).client() as client:
                part.wait_for(lambda: _answers(client, path))

    def _end(self, names: Sequence[str]) -> None:
        for name in names:
            self.parts[name].ask_to_stop()
        for name in names:
            self.parts[name].wait()

    def _admit_user(self) -> None:
        binding = {
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        }
        with self.client(root=True) as client:
            answer = client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json=binding)
        if answer.status_code != httpx.codes.CONFLICT:  # there already: the plane ran before
            answer.raise_for_status()

    def _wait_for_controllers(self) -> None:
        """The controller manager made what every namespace needs; without it every node would stay tainted."""
        with self.client() as client:
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self.parts["kube-controller-manager"].wait_for(lambda: _answers(client, account))

    def _access(self, pair: Pair) -> Access:
        return Access(self.url, self._layout.authority.pair.certificate, pair)


def _answers(client: httpx.Client, path: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return client.get(path).status_code == _HTTP_OK
    return False


def _lay_out(home: Path) -> Layout:
    authority = Authority(home / "certificates")
    issue: Callable[..., Pair] = authority.issue
    return Layout(
        home=home,
        ports=_ports(home / "ports.json"),
        authority=authority,
        server=issue("server", "kube-apiserver", names=["localhost", "kubernetes", "kubernetes.default.svc", LOOPBACK]),
        root=issue("root", "gpufleet-test-root", group="system:masters"),
        admin=issue("admin", USER),
        tokens=authority.key_pair("service-accounts"),
    )


def _ports(file: Path) -> dict[str, int]:
    """Those of the plane that ran here before, so that its clients find it again; else free ones."""
    if file.exists():
        known: dict[str, int] = json.loads(file.read_text())
        return known
    found: dict[str, int] = {}
    for name in ("etcd", "etcd-peer", "kube-apiserver", "kwok"):
        found[name] = free_port(set(found.values()))
    file.write_text(json.dumps(found))
    return found


def _components(layout: Layout, options: Options, built: Built) -> dict[str, Component]:
    """In the order of their start."""
    return {
        name: Component(name, [str(built.command(name)), *flags], layout.home / f"{name}.log")
        for name, flags in commands(layout, options, built).items()
    }
