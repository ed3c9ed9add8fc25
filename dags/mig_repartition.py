"""### MIG layouts that need a drain

Every five minutes: each layout change that a scheduling pass decided is followed until the MIG manager is done with it
(cordon, drain, label, wait for its state) and the node shows the new slices. With the resident controller up this only
looks on; without it, it carries them out.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag, task


@dag(schedule=timedelta(minutes=5), catchup=False, max_active_runs=1, doc_md=__doc__, tags=["gpufleet", "platform"],
     description="Carry out MIG layout changes and verify them, one task per GPU",
     default_args={"owner": "gpufleet", "retries": 3, "retry_delay": timedelta(seconds=5)})  # fmt: skip
def mig_repartition() -> None:
    @task
    def decided() -> list[str]:
        from gpufleet_airflow.tasks import open_repartitions

        return open_repartitions()

    @task.sensor(poke_interval=15, timeout=timedelta(hours=2).total_seconds(), mode="reschedule")
    def applied(name: str) -> bool:
        from gpufleet_airflow.tasks import repartition

        return repartition(name)["state"] in ("done", "superseded")

    @task.sensor(poke_interval=10, timeout=timedelta(minutes=10).total_seconds(), mode="reschedule")
    def verified(name: str) -> bool:
        from gpufleet_airflow.tasks import repartition

        view = repartition(name)
        return view["shown"] or view["state"] == "superseded"

    names = decided()
    applied.expand(name=names) >> verified.expand(name=names)


mig_repartition()
