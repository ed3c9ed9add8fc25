"""How clients find a control plane: kubeconfig files, and a plain HTTP client for tests."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from tools.kubernetes.certificates import Pair

TIMEOUT = 90.0
"""Seconds. A quiet watch speaks once a minute."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where an API server is, whom to trust, and who is asking: by certificate or, for a service account, by token."""

    url: str
    authority: Path
    pair: Pair | None
    token: str = field(default="", repr=False)

    def client(self) -> httpx.Client:
        """Paths are the API's own: `client.get("/api/v1/nodes")`. Close it after use."""
        trust = ssl.create_default_context(cafile=str(self.authority))
        if self.pair:
            trust.load_cert_chain(self.pair.certificate, self.pair.key)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx.Client(base_url=self.url, verify=trust, headers=headers, timeout=TIMEOUT, trust_env=False)


def write_kubeconfig(path: Path, access: Access) -> Path:
    """A kubeconfig with everything inside; only its owner may read it."""
    cluster = {"server": access.url, "certificate-authority-data": _base64(access.authority)}
    user = {"token": access.token} if access.token else {}
    if access.pair:
        user |= {"client-certificate-data": _base64(access.pair.certificate)}
        user |= {"client-key-data": _base64(access.pair.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
