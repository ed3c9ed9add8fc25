"""### The fleet's heartbeat inside Airflow

Every minute: one tick (observe every world, one scheduling pass, carry out what was decided), a sweep that cancels the
jobs of tasks Airflow says are over, and a run of `preemption_recovery` for each notice of a cloud. With the resident
controller up the tick has nothing left to do; without it everything still works within the minute.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import dag, task


@dag(schedule=timedelta(minutes=1), catchup=False, max_active_runs=1, doc_md=__doc__, tags=["gpufleet", "platform"],
     description="Every minute: observe, schedule, act; cancel jobs whose task is over",
     dagrun_timeout=timedelta(minutes=5),
     default_args={"owner": "gpufleet", "retries": 3, "retry_delay": timedelta(seconds=5)})  # fmt: skip
def fleet_sync() -> None:
    @task
    def tick() -> dict[str, int]:
        from gpufleet_airflow.tasks import tick

        return tick()

    @task
    def cancel_ended_claims() -> list[str]:
        from gpufleet_airflow.tasks import cancel_ended_claims

        return cancel_ended_claims()

    @task
    def open_interruptions() -> list[dict[str, Any]]:
        from gpufleet_airflow.tasks import open_interruptions

        return open_interruptions()

    follow = TriggerDagRunOperator.partial(
        task_id="follow", trigger_dag_id="preemption_recovery", skip_when_already_exists=True
    )
    noticed = open_interruptions()
    tick() >> noticed
    follow.expand_kwargs(noticed)
    cancel_ended_claims()


fleet_sync()
