"""Hears in the API server that someone marked a task: the one road of cancelling that works without a triggerer.

The same hooks fire in task processes at an ordinary end; those are told apart by their task instance's class and left alone.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)


class CancelOnMark:
    """Marked failed, success or skipped by hand while deferred: cancel the job of that try."""

    @hookimpl
    def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
        _marked(task_instance, "failed")

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
        _marked(task_instance, "success")

    @hookimpl
    def on_task_instance_skipped(self, previous_state: Any, task_instance: Any) -> None:
        _marked(task_instance, "skipped")


def _marked(task_instance: Any, state: str) -> None:
    if type(task_instance).__name__ == "RuntimeTaskInstance" or not os.environ.get("GPUFLEET_HOME"):
        return
    from gpufleet.services.submit_job import Origin
    from gpufleet_airflow.door import door

    ti = task_instance
    origin = Origin(ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)
    try:
        if door().cancel(origin, f"its Airflow task was marked {state}"):
            log.info("gpufleet job of %s is cancelled", origin.key)
    except Exception:
        # the mark itself must go through; the sweep of fleet_sync cancels within the minute
        log.exception("gpufleet could not cancel the job of %s", origin.key)
