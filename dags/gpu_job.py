"""### One GPU job, from the queue to its end

Trigger it with the form, by REST, or from another DAG with `GpuJobOperator`. The run waits without holding a worker
until the job has ended; reclaimed spot nodes, preemption and node losses are handled meanwhile and do not end it.

* The run acts for the login that triggered it: it must be a member of the team.
* Marking the task failed cancels the job. Clearing it hands the job to the new try.
* Where the job stands in the queue, and why it waits, is on the *GPU fleet* page.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param, dag, task

from gpufleet_airflow.operators.gpu_job import GpuJobOperator


def text(default: str | None, title: str, about: str, **more: Any) -> Param:
    return Param(
        default, type=["null", "string"] if default is None else "string", title=title, description=about, **more
    )


def number(default: float | None, title: str, about: str, **more: Any) -> Param:
    kind = more.pop("kind", "integer")
    return Param(default, type=["null", kind] if default is None else kind, title=title, description=about, **more)


PARAMS = {
    "team": text("", "Team", "The team that pays; you must be a member."),
    "project": text("", "Project", "One of the team's projects."),
    "name": text(None, "Name", "What people call it."),
    "kind": text("training", "Kind", "Training, a production inference service, or interactive work.",
                 enum=["training", "inference", "interactive"]),
    "image": text(None, "Image", "Container image, where the cluster has images."),
    "command": text("", "Command", "What each pod runs."),
    "pods": number(1, "Pods", "They start together or not at all.", minimum=1),
    "gpus": number(None, "Whole GPUs for each pod", "Or leave empty and say the memory below.", minimum=1),
    "memory_gib": number(None, "GPU memory of each replica (GiB)", "A MIG slice that holds it is chosen.", kind="number"),
    "share": number(None, "Share of one GPU", "A fraction such as 0.5, with the memory above.", kind="number", maximum=1),
    "models": Param([], type="array", items={"type": "string"}, title="GPU models", description="Empty: any."),
    "capacity": Param([], type="array", items={"type": "string"}, title="Capacity types",
                      description="Empty: any.", examples=["owned", "reserved", "on-demand", "spot"]),
    "priority": number(50, "Priority", "Inside your queue; higher goes first.", minimum=0, maximum=1000),
    "preemptible": Param(True, type="boolean", title="May be stopped and resumed", description="Off: only within deserved."),
    "checkpoint_interval": text("10m", "Checkpoint interval", "Such as 90s, 10m, 1h."),
    "topology_required": text(None, "Keep inside one", "A topology level such as leaf."),
    "env": Param({}, type="object", title="Environment", description="Variables for the command."),
}  # fmt: skip


@dag(schedule=None, catchup=False, max_active_runs=10_000, max_active_tasks=10_000, params=PARAMS, doc_md=__doc__,
     description="One GPU job: submitted, placed, watched and recovered until it ends", tags=["gpufleet", "job"],
     default_args={"owner": "gpufleet", "retries": 2})  # fmt: skip
def gpu_job() -> None:
    @task
    def request(params: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in params.items() if value not in (None, "", [], {})}

    GpuJobOperator(task_id="run", job=request())  # type: ignore[arg-type]  # an XComArg is resolved as a template


gpu_job()
