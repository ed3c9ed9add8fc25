"""The trigger of `GpuJobOperator`: waits for one job through the triggerer's shared poller, and hears a kill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class GpuJobTrigger(BaseTrigger):
    """Fires once, when the job has ended. Only reads; a stalled or moved trigger changes nothing."""

    def __init__(self, *, job: str, origin: dict[str, Any]) -> None:
        super().__init__()
        self.job = job
        self.origin = origin

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("gpufleet_airflow.triggers.gpu_job.GpuJobTrigger", {"job": self.job, "origin": self.origin})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from gpufleet_airflow.triggers.poller import poller

        state = await poller().wait(self.job)
        yield TriggerEvent({"job": self.job, "state": state})

    async def on_kill(self) -> None:
        """Marked failed or success, or cleared. After a clear a newer try may hold the claim; then nothing happens.

        Airflow also calls this when a stalled triggerer's triggers were handed over; the task is still deferred then.
        """
        from gpufleet_airflow.triggers.poller import poller

        if await poller().in_thread(self._still_deferred):
            return
        await asyncio.sleep(CLEAR_HEAD_START)
        await poller().in_thread(self._cancel)

    def _still_deferred(self) -> bool:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        try:
            states = RuntimeTaskInstance.get_task_states(
                dag_id=self.origin["dag_id"],
                task_ids=[self.origin["task_id"]],
                run_ids=[self.origin["run_id"]],
                map_index=None if self.origin["map_index"] < 0 else self.origin["map_index"],
            )
        except Exception as e:
            self.log.warning("cannot ask for the task's state (%s); the sweep of fleet_sync will", e)
            return True
        found = states.get(self.origin["run_id"], {})
        return any(state == "deferred" for state in found.values())

    def _cancel(self) -> None:
        from gpufleet.services.submit_job import Origin
        from gpufleet_airflow.door import door

        if door().cancel(Origin(**self.origin), "its Airflow task was ended by hand"):
            self.log.info("job %s is cancelled", self.job)


CLEAR_HEAD_START = 3.0
"""Seconds: after a clear the new try's execute was seen 0.9-1.3 s later; it must raise the claim before we look."""
