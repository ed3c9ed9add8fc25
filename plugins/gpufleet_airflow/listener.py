"""Hears what people do to tasks and runs, where Airflow knows it first.

In the API server: someone marked a task or a run, the one road of cancelling that works without a triggerer. In the
scheduler: a run of `gpu_job` begins; its job is submitted ahead of its task, so that Airflow's worker slots never hide
our queue. The task adopts the job when its turn comes, and submits it itself when nobody did.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Final

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)

GPU_JOB: Final = "gpu_job"
PATIENCE: Final = 1.0
"""Seconds the scheduler or the API server waits for our database at most."""
REST_AFTER_TROUBLE: Final = 10.0


class FleetListener:
    """Hooks must return at once and never raise: the other roads and the task itself make good what is missed here."""

    @hookimpl
    def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
        _task_marked(task_instance, "failed")

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
        _task_marked(task_instance, "success")

    @hookimpl
    def on_task_instance_skipped(self, previous_state: Any, task_instance: Any) -> None:
        _task_marked(task_instance, "skipped")

    @hookimpl
    def on_dag_run_running(self, dag_run: Any, msg: str) -> None:
        if dag_run.dag_id == GPU_JOB:
            _carefully(f"submit {dag_run.run_id} ahead", lambda fleet: _submit_ahead(fleet, dag_run))

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        _run_over(dag_run, "failed")

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        _run_over(dag_run, "success")


def _task_marked(task_instance: Any, state: str) -> None:
    """The same hook fires in task processes at an ordinary end, with another class of task instance: not ours to hear."""
    if type(task_instance).__name__ == "RuntimeTaskInstance":
        return
    from gpufleet.services.change_job import cancel_claim
    from gpufleet.services.submit_job import Origin

    ti = task_instance
    origin = Origin(ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)
    _carefully(
        f"cancel {origin.key}", lambda fleet: cancel_claim(fleet, origin, f"its Airflow task was marked {state}")
    )


def _run_over(dag_run: Any, state: str) -> None:
    from gpufleet.services.change_job import cancel_run

    why = f"its Airflow run ended as {state}"
    _carefully(f"cancel {dag_run.run_id}", lambda fleet: cancel_run(fleet, dag_run.dag_id, dag_run.run_id, why))


def _submit_ahead(fleet: Any, dag_run: Any) -> None:
    from gpufleet.errors import Forbidden, Invalid
    from gpufleet.formats.request import parse_request
    from gpufleet.services.submit_job import Origin, submit_ahead
    from gpufleet.services.who_asks import who_asks

    origin = Origin(dag_run.dag_id, dag_run.run_id, "run", -1, 1)
    try:
        raw, principal = who_asks(fleet, dict(dag_run.conf or {}), dag_run.triggering_user_name, dag_run.dag_id)
        submit_ahead(fleet, parse_request(raw), principal, origin)
    except (Invalid, Forbidden):
        return  # the task says it, in its own log, and fails


_fleets: dict[int, Any] = {}
_trouble_until = 0.0


def _carefully(what: str, act: Any) -> None:
    """Do it with our database if that answers at once; a fault is told, and for a moment nobody is asked again."""
    global _trouble_until
    if not os.environ.get("GPUFLEET_HOME") or time.monotonic() < _trouble_until:
        return
    try:
        act(_fleet())
    except Exception as e:
        _trouble_until = time.monotonic() + REST_AFTER_TROUBLE
        log.warning("gpufleet could not %s (%s); fleet_sync or the task will", what, e)


def _fleet() -> Any:
    """One for each process: a connection must not be shared across a fork, and the scheduler forks its workers."""
    from gpufleet.bootstrap import fleet_from

    if os.getpid() not in _fleets:
        _fleets.clear()
        _fleets[os.getpid()] = fleet_from(os.environ, patience=PATIENCE)
    return _fleets[os.getpid()]
