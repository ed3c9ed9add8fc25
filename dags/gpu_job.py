"""### One GPU job, from the queue to its end

Trigger it with the form, by REST, or use `GpuJobOperator` in your own DAG. The run waits without holding a worker.

* The run acts for the login that triggered it: a member of the team.
* Reclaimed spot nodes, preemption and lost nodes do not end it.
* Marking the task failed cancels the job. Clearing it hands the job to the new try.
* Its place in the queue, and why it waits, is on the *GPU fleet* page.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from gpufleet_airflow.forms import JOB_FORM
from gpufleet_airflow.operators.gpu_job import GpuJobOperator


@dag(schedule=None, catchup=False, max_active_runs=10_000, max_active_tasks=10_000, params=JOB_FORM, doc_md=__doc__,
     description="One GPU job: submitted, placed, watched and recovered until it ends", tags=["gpufleet", "job"],
     default_args={"owner": "gpufleet", "retries": 2, "retry_delay": timedelta(seconds=10)})  # fmt: skip
def gpu_job() -> None:
    GpuJobOperator(task_id="run")


gpu_job()
