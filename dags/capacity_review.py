"""### What capacity is worth, once a week

How much of last week's work stood on owned or reserved capacity, how busy each such node was, and what today's demand
would best be bought as, line by line. It changes nothing: the numbers are the task's result.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, dag, task


@dag(schedule=CronTriggerTimetable("0 6 * * 1", timezone="UTC"), catchup=False, max_active_runs=1, doc_md=__doc__,
     tags=["gpufleet", "capacity", "finance"], description="Weekly: coverage, commitments' use, the best portfolio",
     default_args={"owner": "gpufleet", "retries": 2, "retry_delay": timedelta(minutes=1)})  # fmt: skip
def capacity_review() -> None:
    @task
    def review() -> dict[str, Any]:
        from gpufleet_airflow.tasks import review_capacity

        return review_capacity()

    review()


capacity_review()
