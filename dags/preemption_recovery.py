"""### A machine is taken back

One run for each notice, started by `fleet_sync`; the same notice never starts a second one. The fleet itself warns, saves,
requeues and buys again: this run shows how far it is, and is red where a job does not come back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task


@dag(schedule=None, catchup=False, max_active_runs=100, doc_md=__doc__, tags=["gpufleet", "recovery"],
     description="One run per interruption: who leaves, who runs again",
     params={"interruption": Param(type="string", minLength=1, description="id of the notice, as `gpufleet status` has it")},
     default_args={"owner": "gpufleet", "retries": 3, "retry_delay": timedelta(seconds=5)})  # fmt: skip
def preemption_recovery() -> None:
    @task
    def heard(params: dict[str, Any] | None = None) -> str:
        from gpufleet_airflow.tasks import interruption

        return str(interruption((params or {})["interruption"])["interruption"])

    @task.sensor(poke_interval=5, timeout=timedelta(minutes=30).total_seconds(), mode="reschedule")
    def left(notice: str) -> bool:
        from gpufleet_airflow.tasks import interruption

        return bool(interruption(notice)["left"])

    @task.sensor(poke_interval=15, timeout=timedelta(hours=12).total_seconds(), mode="reschedule")
    def resumed(notice: str) -> bool:
        from gpufleet_airflow.tasks import interruption

        return bool(interruption(notice)["resumed"])

    notice = heard()
    left(notice) >> resumed(notice)


preemption_recovery()
