"""What the API's refusals mean to us. Its own words are kept: they are what a platform team searches for."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from gpufleet.errors import GpufleetError, NotFound, Permanent, Refused, Temporary


class Conflict(Refused):
    """409: it exists already, or it is not as we believed. Look at it, then decide."""


class Expired(Temporary):
    """410: the version asked for is too old. List again."""


class Full(Refused):
    """403: a quota or a limit range says no."""


class Denied(Refused):
    """403: an admission rule says no, or the namespace is going away."""


_NO_RIGHT: Final = re.compile(r"(User|system:\S+).* cannot \w+ (resource|path)")
"""RBAC's words. A server that has just started says so for a moment to everybody, until it has read its rules."""


def error_of(cluster: str, status: int, raw: bytes, retry_after: str | None = None) -> GpufleetError:
    """The error that an answer with this status and body stands for."""
    said = _said(raw) or f"status {status}"
    if status == 404:
        return NotFound(f"Cluster {cluster}: {said}.")
    if status == 409:
        return Conflict(f"Cluster {cluster}: {said}.")
    if status == 410:
        return Expired(f"Cluster {cluster}: {said}.", retry_after=0.0)
    if status == 401:
        return Temporary(f"Cluster {cluster} does not accept our credentials: {said}; renew them.")
    if status == 429 or status >= 500:
        return Temporary(f"Cluster {cluster} is busy or unwell: {said}.", retry_after=_seconds(retry_after))
    return _refusal(cluster, status, said)


def error_in(cluster: str, raw: dict[str, Any]) -> GpufleetError:
    """The error in an ERROR event of a watch, which comes with HTTP 200."""
    code = raw.get("code")
    return error_of(cluster, code if isinstance(code, int) and code >= 400 else 500, json.dumps(raw).encode())


def _refusal(cluster: str, status: int, said: str) -> GpufleetError:
    if status == 403 and _NO_RIGHT.search(said):
        return Temporary(f"Cluster {cluster} has not given us this right: {said}.", retry_after=1.0)
    if status == 403 and ("exceeded quota" in said or "usage per" in said):
        return Full(f"Cluster {cluster} has no quota left for it: {said}.")
    if status in (403, 405) or "admission" in said or "denied" in said:
        return Denied(f"Cluster {cluster} does not allow it: {said}.")
    return Permanent(f"Cluster {cluster} cannot accept it: {said}.")


def _said(raw: bytes) -> str:
    try:
        message = json.loads(raw)["message"]
    except (ValueError, KeyError, TypeError):
        message = raw.decode(errors="replace")
    return " ".join(str(message).split()).rstrip(".")[:600]


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text or 0.3))
    except ValueError:
        return 1.0
