"""### Last night's bill

One run for each finance day (the partition key, e.g. `2026-09-15`).

- **settle**: use from the ledger, priced, as *provisional*: every charge, with idle cost stated; totals add up to the cost of
  the fleet. Running a day again replaces its provisional statement with the same numbers unless the ledger has grown.
- **check**: schema, sums, ranges and references (Great Expectations; Data Docs in the home's `data-docs`). A failed check names
  its rows and publishes nothing: what was published before stays.
- **books**: days that are two days old are settled once more (*estimated*), what came late for a closed month is booked as a
  correction, months whose day has come are closed, budgets that were passed are told.
- **publish**: the month to date as FOCUS 1.4, workbook, a statement for each team, journal, summaries and a manifest. How the
  night went is told by mail and webhook where the connections `gpufleet_mail` and `gpufleet_webhook` are.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronPartitionTimetable, Param, dag, task

from gpufleet_airflow.notifying import NightNotifier

NIGHTLY = CronPartitionTimetable("0 1 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d")
DAY = Param(None, type=["null", "string"], title="Day", description="Empty: the run's partition, e.g. 2026-09-15.")


@dag(schedule=NIGHTLY, catchup=False, max_active_runs=1, doc_md=__doc__, params={"day": DAY},
     tags=["gpufleet", "finance"], description="Meter, price, check and publish one day",
     default_args={"owner": "gpufleet", "retries": 2, "retry_delay": timedelta(minutes=1),
                   "on_failure_callback": NightNotifier(failed=True)})  # fmt: skip
def chargeback_nightly() -> None:
    @task
    def settle(dag_run: Any = None, params: dict[str, Any] | None = None) -> dict[str, Any]:
        from gpufleet_airflow.tasks import settle_day

        return settle_day((params or {}).get("day") or dag_run.partition_key)

    @task
    def check(settled: dict[str, Any]) -> dict[str, Any]:
        from gpufleet_airflow.tasks import check_day

        return check_day(settled["day"])

    @task
    def books(checked: dict[str, Any]) -> dict[str, Any]:
        from gpufleet_airflow.tasks import keep_books

        return keep_books(checked["day"])

    @task(on_success_callback=NightNotifier())
    def publish(kept: dict[str, Any]) -> dict[str, Any]:
        from gpufleet_airflow.tasks import publish_night

        return publish_night(kept["day"])

    publish(books(check(settle())))


chargeback_nightly()
