"""### Last night's bill

One run for each finance day (the partition key, e.g. `2026-09-15`). Publishes the day as *provisional*: use from the
ledger, priced, by team and project, with idle cost stated; totals add up to the cost of the fleet. Running a day again
replaces its provisional statement with the same numbers unless the ledger has grown.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronPartitionTimetable, Param, dag, task

NIGHTLY = CronPartitionTimetable("0 1 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d")
DAY = Param(None, type=["null", "string"], title="Day", description="Empty: the run's partition, e.g. 2026-09-15.")


@dag(schedule=NIGHTLY, catchup=False, max_active_runs=1, doc_md=__doc__, params={"day": DAY},
     tags=["gpufleet", "finance"], description="Meter, price, check and publish one day",
     default_args={"owner": "gpufleet", "retries": 2, "retry_delay": timedelta(minutes=1)})  # fmt: skip
def chargeback_nightly() -> None:
    @task
    def publish(dag_run: Any = None, params: dict[str, Any] | None = None) -> dict[str, Any]:
        from gpufleet_airflow.tasks import settle_day

        return settle_day((params or {}).get("day") or dag_run.partition_key)

    publish()


chargeback_nightly()
