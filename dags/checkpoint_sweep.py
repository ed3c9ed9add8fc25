"""### Checkpoints kept honest

Every five minutes: jobs whose saves are overdue are asked for one, half-written and superseded saves are pruned, and
jobs that have not saved for long are named.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag, task


@dag(schedule=timedelta(minutes=5), catchup=False, max_active_runs=1, doc_md=__doc__, tags=["gpufleet", "recovery"],
     description="Ask jobs that are due for a checkpoint, prune old saves, name stale ones",
     dagrun_timeout=timedelta(minutes=10),
     default_args={"owner": "gpufleet", "retries": 3, "retry_delay": timedelta(seconds=5)})  # fmt: skip
def checkpoint_sweep() -> None:
    @task
    def sweep() -> dict[str, list[str]]:
        from gpufleet_airflow.tasks import sweep_checkpoints

        return sweep_checkpoints()

    sweep()


checkpoint_sweep()
