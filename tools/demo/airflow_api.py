"""Airflow's REST API as one logged-in person."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

import httpx

TRIES: Final = 10


class AirflowApi:
    """Calls as `login`; every wrong answer raises with Airflow's own words."""

    def __init__(self, url: str, login: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60)
        token = self._call("POST", "/auth/token", json={"username": login, "password": login})["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"

    def _call(self, method: str, path: str, **more: Any) -> Any:
        """Everything called here may be asked twice."""
        for _ in range(TRIES):
            answer = self._http.request(method, path, **more)
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                break
            time.sleep(0.5)
        return self._told(answer, f"{method} {path}")

    @staticmethod
    def _told(answer: httpx.Response, what: str) -> Any:
        if answer.is_error:
            raise RuntimeError(f"{what}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def dag_ids(self) -> list[str]:
        return [dag["dag_id"] for dag in self._call("GET", "/api/v2/dags")["dags"]]

    def trigger(self, dag: str, conf: dict[str, Any], **more: Any) -> str:
        """Start a run; returns its id. Airflow on SQLite may answer 500 when it is busy: asked again, the id makes it one run."""
        run = f"api__{secrets.token_hex(8)}"
        body = {"logical_date": None, "dag_run_id": run, "conf": conf, **more}
        for attempt in range(TRIES):
            answer = self._http.post(f"/api/v2/dags/{dag}/dagRuns", json=body)
            if answer.status_code == httpx.codes.CONFLICT and attempt:
                return run
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                return str(self._told(answer, f"trigger {dag}")["dag_run_id"])
            time.sleep(0.5)
        raise RuntimeError(f"trigger {dag}: Airflow answered {answer.status_code} {TRIES} times")

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
