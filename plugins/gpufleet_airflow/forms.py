"""The form of `gpu_job`: the keys of a job request, with the checks a browser and the REST API make before we see them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param


def text(default: str | None, title: str, about: str, **more: Any) -> Param:
    return Param(
        default, type=["null", "string"] if default is None else "string", title=title, description=about, **more
    )


def number(default: float | None, title: str, about: str, **more: Any) -> Param:
    kind = more.pop("kind", "integer")
    return Param(default, type=["null", kind] if default is None else kind, title=title, description=about, **more)


def names(title: str, examples: list[str]) -> Param:
    return Param([], type="array", items={"type": "string"}, title=title, description="Empty: any.", examples=examples)


JOB_FORM = {
    "team": text("", "Team", "The team that pays; you must be a member."),
    "project": text("", "Project", "One of the team's projects."),
    "name": text(None, "Name", "What people call it."),
    "kind": text("training", "Kind", "A service is inference.", enum=["training", "inference", "interactive"]),
    "image": text(None, "Image", "Container image, where the cluster has images."),
    "command": text("", "Command", "What each pod runs."),
    "pods": number(1, "Pods", "They start together or not at all.", minimum=1),
    "gpus": number(None, "Whole GPUs for each pod", "Or leave empty and say the memory below.", minimum=1),
    "memory_gib": number(None, "GPU memory of each replica (GiB)", "A MIG slice that holds it is chosen.", kind="number"),
    "share": number(None, "Share of one GPU", "A fraction such as 0.5, with the memory above.", kind="number", maximum=1),
    "models": names("GPU models", ["H100-80", "A100-80"]),
    "capacity": names("Capacity types", ["owned", "reserved", "on-demand", "spot"]),
    "priority": number(50, "Priority", "Inside your queue; higher goes first.", minimum=0, maximum=1000),
    "preemptible": Param(True, type="boolean", title="Preemptible", description="May be stopped and resumed."),
    "checkpoint_interval": text("10m", "Checkpoint interval", "Such as 90s, 10m, 1h."),
    "topology_required": text(None, "Keep inside one", "A topology level such as leaf."),
    "env": Param({}, type="object", title="Environment", description="Variables for the command."),
}  # fmt: skip
