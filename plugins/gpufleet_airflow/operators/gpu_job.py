"""`GpuJobOperator`: one task for the whole life of a GPU job, all its attempts included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from gpufleet_airflow.links import JobLink, LogsLink
from gpufleet_airflow.triggers.gpu_job import GpuJobTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from gpufleet.services.submit_job import Origin

OVER = ("succeeded", "failed", "cancelled")


class GpuJobOperator(BaseOperator):
    """Submit a GPU job and wait for its end without holding a worker.

    `job` has the keys of a job request (docs/formats-request.md): team, project, command, pods, gpus or memory_gib, ...
    It may be a template, or another task's result; without it the run's params are the request. The task
    returns {job, state, attempts, last_step, url, ...}.
    A job that was refused, failed or was cancelled fails the task without another try: Airflow's retries are for
    Airflow's troubles, the job has its own.
    """

    template_fields: Sequence[str] = ("job",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "json"}
    operator_extra_links = (JobLink(), LogsLink())
    ui_color = "#dff0d8"

    def __init__(self, *, job: Mapping[str, Any] | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.job_id: str | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit or adopt, tick once so that a job that fits starts at once, then wait in the triggerer."""
        from gpufleet.errors import Forbidden, Invalid, NotFound
        from gpufleet_airflow.door import door

        origin = origin_of(context)
        try:
            self.job_id = door().submit(_request(self.job, context), context["dag_run"].triggering_user_name, origin)
        except (Invalid, Forbidden, NotFound) as e:
            raise AirflowFailException(str(e)) from e
        self.log.info("job %s is in the queue", self.job_id)
        if door().states([self.job_id]).get(self.job_id) in OVER:
            return self.finished(context, {"job": self.job_id})
        return self.wait(origin)

    def wait(self, origin: Origin) -> Any:
        """Defer for as long as the job lives."""
        trigger = GpuJobTrigger(job=str(self.job_id), origin=asdict(origin))
        self.defer(trigger=trigger, method_name="finished")

    def finished(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """The job has ended: its result is the task's."""
        from gpufleet_airflow.door import door

        self.job_id = str(event["job"])
        result = door().result(self.job_id)
        if result["state"] != "succeeded":
            raise AirflowFailException(
                f"job {self.job_id} {result['state']}: {result['reason'] or 'no reason was given'}"
            )
        return result

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """A trigger that crashed is no news about the job: look, and wait again."""
        if next_method != "__fail__":
            return super().resume_execution(next_method, next_kwargs, context)
        self.log.warning("the trigger failed (%s); looking at the job itself", (next_kwargs or {}).get("error"))
        return self.execute(context)


def _request(job: Mapping[str, Any] | str | None, context: Context) -> dict[str, Any]:
    if job is None:
        return dict(context["params"])
    if isinstance(job, str):
        import json

        return dict(json.loads(job))
    return dict(job)


def origin_of(context: Context) -> Origin:
    """The try that is running now."""
    from gpufleet.services.submit_job import Origin

    ti = context["ti"]
    map_index = -1 if ti.map_index is None else ti.map_index
    return Origin(ti.dag_id, ti.run_id, ti.task_id, map_index, ti.try_number)
