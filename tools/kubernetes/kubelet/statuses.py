"""What the kubelet says about a pod, as patches of its status. Pure: instants are arguments, aware UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpufleet.sandbox.runner import Sight

Raw = dict[str, Any]


def stamp(at: datetime) -> str:
    """As the API writes instants: whole seconds."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def running(pod: Mapping[str, Any], started: datetime, address: str) -> Raw:
    return {
        "phase": "Running",
        "startTime": stamp(started),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "conditions": _conditions("True", "", started),
        "containerStatuses": [_container(pod, {"running": {"startedAt": stamp(started)}}, ready=True)],
    }


def waiting(pod: Mapping[str, Any], reason: str, message: str) -> Raw:
    return {
        "phase": "Pending",
        "containerStatuses": [_container(pod, {"waiting": {"reason": reason, "message": message}})],
    }


def ended(pod: Mapping[str, Any], sight: Sight, at: datetime, verdict: str = "") -> Raw:
    """The end of its process; `verdict` is the kubelet's own doing: `OOMKilled`, `Evicted`."""
    code = 137 if sight.code is None else sight.code
    finished = sight.ended_at or at
    reason = "OOMKilled" if verdict == "OOMKilled" else ("Completed" if code == 0 else "Error")
    state = {"exitCode": code, "reason": reason, "finishedAt": stamp(finished)}
    state["startedAt"] = stamp(sight.started_at or finished)
    over = "Succeeded" if code == 0 and verdict != "Evicted" else "Failed"
    return {
        "phase": over,
        "startTime": state["startedAt"],
        **({"reason": "Evicted", "message": "The node was low on resource: memory."} if verdict == "Evicted" else {}),
        "conditions": _conditions("False", f"Pod{'Completed' if over == 'Succeeded' else 'Failed'}", finished),
        "containerStatuses": [_container(pod, {"terminated": state})],
    }


def never_ran(pod: Mapping[str, Any], reason: str, message: str, at: datetime, code: int = 128) -> Raw:
    """It did not start, or nobody knows how it ended."""
    state = {"exitCode": code, "reason": reason, "message": message, "startedAt": stamp(at), "finishedAt": stamp(at)}
    return {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": stamp(at),
        "conditions": _conditions("False", "PodFailed", at),
        "containerStatuses": [_container(pod, {"terminated": state})],
    }


def _conditions(status: str, reason: str, at: datetime) -> list[Raw]:
    changing = [
        {"type": kind, "status": status, "lastTransitionTime": stamp(at), "reason": reason or None}
        for kind in ("Ready", "ContainersReady")
    ]
    return [{"type": "Initialized", "status": "True", "lastTransitionTime": stamp(at)}, *changing]


def _container(pod: Mapping[str, Any], state: Raw, *, ready: bool = False) -> Raw:
    container = pod["spec"]["containers"][0]
    kinds = dict.fromkeys(("waiting", "running", "terminated"))
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "containerID": f"process://{pod['metadata']['uid']}",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": {**kinds, **state},  # a strategic merge keeps what is not taken away
    }
