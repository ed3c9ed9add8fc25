"""Buttons on the task page: the job in the portal, and its logs. Paths stay inside Airflow's own address."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperatorLink

TASK_VIEW = "gpufleet/task?dag={DAG_ID}&run={RUN_ID}&task={TASK_ID}&map_index={MAP_INDEX}"
"""The tab on a task's page; Airflow fills the placeholders in, but for MAP_INDEX of an unmapped task."""


def _portal_path(operator: Any, page: str) -> str:
    """Relative to Airflow's base; the operator learnt its job's id when it submitted."""
    job = getattr(operator, "job_id", None)
    return f"/plugin/gpufleet/gpufleet/{page}/{job}" if job else "/plugin/gpufleet"


class JobLink(BaseOperatorLink):
    name = "GPU job"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return _portal_path(operator, "job")


class LogsLink(BaseOperatorLink):
    name = "GPU job logs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return _portal_path(operator, "logs")
