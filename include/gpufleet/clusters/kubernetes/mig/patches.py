"""Steps of the MIG machine as patches of the node, and back: what the node's annotation remembers."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

from gpufleet.clusters.kubernetes.mig.machine import Change, Cordon, Label, Note, Step, Uncordon
from gpufleet.clusters.kubernetes.rendering.names import Object

CONFIG: Final = "nvidia.com/mig.config"
STATE: Final = "nvidia.com/mig.config.state"
CHANGE: Final = "gpufleet.io/mig-change"
"""Annotation of a node: the change under way. It survives us, so whoever comes next goes on."""


def node_patch(step: Step) -> Object | None:
    """A JSON merge patch of the node; None for a step that is not about the node itself."""
    match step:
        case Cordon(change):
            return {"metadata": _remembered(change), "spec": {"unschedulable": True}}
        case Label(config, change):
            return {"metadata": {**_remembered(change), "labels": {CONFIG: config}}}
        case Note(change):
            return {"metadata": _remembered(change)}
        case Uncordon(is_open):
            forgotten: Object = {"metadata": {"annotations": {CHANGE: None}}}
            return forgotten | ({"spec": {"unschedulable": None}} if is_open else {})
        case _:
            return None


def _remembered(change: Change) -> Object:
    times = {"labelled_at": change.labelled_at, "succeeded_at": change.succeeded_at}
    told = {"config": change.config, "cordoned_by_us": change.cordoned_by_us}
    return {"annotations": {CHANGE: json.dumps({**told, **{name: at.isoformat() for name, at in times.items() if at}})}}


def change_of(annotations: object) -> Change | None:
    """What the node remembers; None where there is nothing, or nothing of ours."""
    text = annotations.get(CHANGE) if isinstance(annotations, dict) else None
    try:
        told = json.loads(text) if isinstance(text, str) else None
        if told is None:
            return None
        times = [datetime.fromisoformat(told[n]) if n in told else None for n in ("labelled_at", "succeeded_at")]
        return Change(str(told["config"]), bool(told["cordoned_by_us"]), *times)
    except (ValueError, KeyError, TypeError):
        return None
