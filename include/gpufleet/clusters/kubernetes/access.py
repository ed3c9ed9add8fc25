"""Where a cluster's API is and how one gets in: a kubeconfig file, or the service account of a pod.

What stands in a kubeconfig and what a credential plugin answers: kubernetes.io, "Organizing Cluster Access Using
kubeconfig Files" and "client-go credential plugins". The official Python clients read the same, but importing them
takes seconds and tens of MiB, in every task of Airflow that submits.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from gpufleet.errors import Invalid, Temporary

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_LIFE: Final = 60.0
"""Seconds a token read from a file is used before the file is read again: the kubelet renews it there."""
PLUGIN_PATIENCE: Final = 30.0


@dataclass(slots=True)
class Access:
    """One way into one cluster. `token()` is the value of the Authorization header, empty with a certificate."""

    server: str
    tls: ssl.SSLContext | None
    fixed: str = ""
    token_file: Path | None = None
    plugin: Mapping[str, Any] | None = None
    _token: str = field(default="", repr=False)
    _until: float = 0.0

    async def token(self) -> str:
        """Raises Temporary when the plugin fails, Invalid when it answers nonsense."""
        if self.token_file is None and self.plugin is None:
            return self.fixed
        if time.time() >= self._until:
            await self._renew()
        return self._token

    def forget(self) -> None:
        """The server no longer accepts the token: the next request gets a new one."""
        self._until = 0.0

    async def _renew(self) -> None:
        if self.token_file is not None:
            self._token, self._until = f"Bearer {_text(self.token_file)}", time.time() + TOKEN_LIFE
        else:
            status = await _ask_plugin(self.plugin or {})
            self._token, self._until = f"Bearer {status['token']}", _expiry(status)


def access_from(kubeconfig: str = "", context: str = "", *, environment: Mapping[str, str] = os.environ) -> Access:
    """The way in that a file names, or the pod's own service account when no file is given.

    Without either, `KUBECONFIG` and then `~/.kube/config` are tried. Raises Invalid that says what to set.
    """
    if not kubeconfig and "KUBERNETES_SERVICE_HOST" in environment and (SERVICE_ACCOUNT / "token").is_file():
        return in_cluster(environment)
    path = Path(kubeconfig or environment.get("KUBECONFIG", "").split(os.pathsep)[0] or "~/.kube/config").expanduser()
    try:
        raw = yaml.safe_load(_text(path))
    except yaml.YAMLError as e:
        raise Invalid(f"{path} is not a kubeconfig we can use: {type(e).__name__} {e}.") from None
    return access_of(raw, str(path), context, path.parent)


def access_of(raw: Any, source: str, context: str = "", folder: Path = Path()) -> Access:
    """The way in that a kubeconfig's content names; relative files count from `folder`. Raises Invalid naming `source`."""
    try:
        return _from_file(raw, source, context, folder)
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise Invalid(f"{source} is not a kubeconfig we can use: {type(e).__name__} {e}.") from None


def in_cluster(environment: Mapping[str, str]) -> Access:
    """The service account of the pod we run in; raises Invalid outside of one."""
    if "KUBERNETES_SERVICE_HOST" not in environment or not (SERVICE_ACCOUNT / "token").is_file():
        raise Invalid("This process runs in no pod of a cluster, so there is no service account to go in with.")
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    tls = ssl.create_default_context(cafile=SERVICE_ACCOUNT / "ca.crt")
    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", tls, token_file=SERVICE_ACCOUNT / "token")


def _from_file(raw: Mapping[str, Any], source: str, context: str, folder: Path) -> Access:
    chosen = _named(raw, "contexts", context or raw.get("current-context") or "", source)["context"]
    cluster = _named(raw, "clusters", chosen["cluster"], source)["cluster"]
    user = _named(raw, "users", chosen["user"], source)["user"] if chosen.get("user") else {}
    if "auth-provider" in user:
        raise Invalid(f"{source} uses an auth-provider, which Kubernetes has dropped; use a credential plugin (exec).")
    server = str(cluster["server"]).rstrip("/")
    access = Access(server, _tls(cluster, user, folder) if server.startswith("https") else None)
    if "token" in user:
        access.fixed = f"Bearer {user['token']}"
    elif "tokenFile" in user:
        access.token_file = folder / user["tokenFile"]
    elif "exec" in user:
        access.plugin = user["exec"]
    elif "username" in user:
        pair = f"{user['username']}:{user['password']}".encode()
        access.fixed = f"Basic {base64.b64encode(pair).decode()}"
    return access


def _named(raw: Mapping[str, Any], what: str, name: str, source: str) -> Mapping[str, Any]:
    for entry in raw.get(what) or ():
        if entry["name"] == name:
            found: Mapping[str, Any] = entry
            return found
    known = ", ".join(sorted(entry["name"] for entry in raw.get(what) or ()))
    raise Invalid(f"{source} has no '{name}' among its {what}; it has: {known or 'none'}.")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    authority = _bytes(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _bytes(user, "client-certificate", folder), _bytes(user, "client-key", folder)
    if certificate and key:
        with tempfile.NamedTemporaryFile() as pair:  # the ssl module reads key pairs from files alone
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _bytes(raw: Mapping[str, Any], key: str, folder: Path) -> bytes:
    if data := raw.get(f"{key}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as e:
            raise ValueError(f"{key}-data is not base64: {e}") from None
    return (folder / raw[key]).read_bytes() if raw.get(key) else b""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as e:
        raise Invalid(f"{path} cannot be read ({e.strerror}); name the cluster's kubeconfig in fleet.yaml.") from None


async def _ask_plugin(plugin: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the credential plugin answers under `status`."""
    command = [plugin["command"], *(plugin.get("args") or ())]
    asked = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    extra = {pair["name"]: pair["value"] for pair in plugin.get("env") or ()}
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), PLUGIN_PATIENCE)
    except TimeoutError:
        process.kill()
        raise Temporary(f"The credential plugin {command[0]} did not end in {PLUGIN_PATIENCE:g} s.") from None
    if process.returncode:
        raise Temporary(f"The credential plugin {command[0]} failed: {err.decode(errors='replace').strip()[-200:]}")
    try:
        status: Mapping[str, Any] = json.loads(out)["status"]
        status["token"]
    except (ValueError, KeyError, TypeError):
        raise Invalid(f"The credential plugin {command[0]} gave no token.") from None
    return status


def _expiry(status: Mapping[str, Any]) -> float:
    text = status.get("expirationTimestamp")
    return datetime.fromisoformat(text).timestamp() - 30 if text else float("inf")
