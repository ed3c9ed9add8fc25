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
    "leader_gpus": number(None, "Whole GPUs for the first pod", "Where the leader differs from the workers.", minimum=1),
    "memory_gib": number(None, "GPU memory of each replica (GiB)", "A MIG slice that holds it is chosen.", kind="number"),
    "like": text(None, "GPU memory as learned of", "Instead of the memory: 'NAME; batch 2; sequence 2048'."),
    "profile": text(None, "MIG profile", "Only where it must be that one, such as 1g.10gb."),
    "share": number(None, "Share of one GPU", "A fraction such as 0.5, with the memory above.", kind="number", maximum=1),
    "models": names("GPU models", ["H100-80", "A100-80"]),
    "gpu_memory_gib": number(None, "GPU memory at least (GiB)", "Of the cards for whole GPUs.", kind="number"),
    "mix_models": Param(False, type="boolean", title="Mix models", description="One gang may stand on several models."),
    "capacity": names("Capacity types", ["owned", "reserved", "on-demand", "spot"]),
    "priority": number(50, "Priority", "Inside your queue; higher goes first.", minimum=0, maximum=1000),
    "preemptible": Param(True, type="boolean", title="Preemptible", description="May be stopped and resumed."),
    "min_members": number(None, "Pods at least", "An elastic job starts with so many and grows.", minimum=1),
    "runtime": text(None, "Runtime at most", "Such as 2h; a short one may start in a reserved gap."),
    "deadline": text(None, "Done by", "An instant such as 2026-03-10T18:00:00Z, with the runtime above."),
    "checkpoint_interval": text("10m", "Checkpoint interval", "Such as 90s, 10m, 1h."),
    "checkpoint_keep": number(None, "Checkpoints to keep", "Older ones are deleted.", minimum=1),
    "grace": text(None, "Time to save", "Between the notice and the end, such as 2m."),
    "fresh": Param(False, type="boolean", title="Start fresh", description="Submit anew though the job of this run has ended."),
    "topology_required": text(None, "Keep inside one", "A topology level such as leaf."),
    "topology_preferred": text(None, "Keep near in one", "The same as a wish."),
    "topology_spread": text(None, "Spread over", "A level, for replicas that must not go down together."),
    "workload": text(None, "Workload", "What runs, in the words of 'as learned of': its memory is learned."),
    "env": Param({}, type="object", title="Environment", description="Variables for the command."),
}  # fmt: skip
