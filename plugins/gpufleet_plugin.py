"""The only file Airflow loads from this folder: the portal, its menu entries, links and the listener."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from gpufleet_airflow.links import TASK_VIEW, JobLink, LogsLink
from gpufleet_airflow.listener import FleetListener

log = logging.getLogger(__name__)


class GpufleetPlugin(AirflowPlugin):
    name = "gpufleet"
    listeners: ClassVar = [FleetListener()]
    operator_extra_links: ClassVar = [JobLink(), LogsLink()]
    external_views: ClassVar = [
        {"name": "GPU fleet", "href": "gpufleet/", "destination": "nav", "nav_top_level": True, "url_route": "gpufleet"},
        {"name": "GPU job", "href": TASK_VIEW, "destination": "task_instance", "url_route": "gpufleet-task"},
    ]  # fmt: skip

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """Built in the API server only, and a fault here must never stop it."""
        try:
            from gpufleet_airflow.portal import app
        except Exception:
            log.exception("the gpufleet portal is disabled")
            return []
        return [{"app": app, "url_prefix": "/gpufleet", "name": "gpufleet portal"}]
