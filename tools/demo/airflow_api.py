"""Airflow's REST API as one logged-in person."""

from __future__ import annotations

from typing import Any

import httpx


class AirflowApi:
    """Calls as `login`; every wrong answer raises with Airflow's own words."""

    def __init__(self, url: str, login: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)
        token = self._call("POST", "/auth/token", json={"username": login, "password": login})["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"

    def _call(self, method: str, path: str, **more: Any) -> Any:
        answer = self._http.request(method, path, **more)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def dag_ids(self) -> list[str]:
        return [dag["dag_id"] for dag in self._call("GET", "/api/v2/dags")["dags"]]

    def trigger(self, dag: str, conf: dict[str, Any], **more: Any) -> str:
        """Start a run; returns its id."""
        body = {"logical_date": None, "conf": conf, **more}
        return str(self._call("POST", f"/api/v2/dags/{dag}/dagRuns", json=body)["dag_run_id"])

    def run_state(self, dag: str, run: str) -> str:
        return str(self._call("GET", f"/api/v2/dags/{dag}/dagRuns/{run}")["state"])

    def xcom(self, dag: str, run: str, task: str) -> Any:
        """What a task returned."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        return self._call("GET", path)["value"]

    def portal(self, path: str) -> Any:
        """A JSON page of our portal, as this person."""
        return self._call("GET", f"/gpufleet/{path}")

    def mark(self, dag: str, run: str, task: str, state: str) -> None:
        """Mark a task by hand."""
        self._call("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}", json={"new_state": state})

    def clear(self, dag: str, run: str, task: str) -> None:
        body = {"dag_run_id": run, "task_ids": [task], "dry_run": False, "reset_dag_runs": True, "only_failed": False}
        self._call("POST", f"/api/v2/dags/{dag}/clearTaskInstances", json=body)
