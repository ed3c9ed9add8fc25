"""What the tasks of our own DAGs call: one service each, a small JSON-ready answer."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import defaultdict
from typing import Any

log = logging.getLogger(__name__)


def _fleet() -> Any:
    import os

    from gpufleet.bootstrap import fleet_from
    from gpufleet_airflow.connections import airflow_connection

    return fleet_from(os.environ, connections=airflow_connection)


def tick() -> dict[str, int]:
    """One tick (or served by whoever is at it); how many jobs are in which state."""
    from gpufleet.services.prompt_tick import prompt_tick
    from gpufleet.store import jobs

    fleet = _fleet()
    prompt_tick(fleet)
    with fleet.database.read() as connection:
        return jobs.count_by_state(connection)


def cancel_ended_claims() -> list[str]:
    """Ask Airflow about every live claim; cancel the jobs of tries that are over. The road that needs nobody awake."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    from gpufleet.services.change_job import cancel_claim, live_claims

    fleet = _fleet()
    by_dag: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for claim in live_claims(fleet):
        by_dag[claim.dag_id, claim.task_id].append(claim)
    cancelled = []
    for (dag_id, task_id), claims in sorted(by_dag.items()):
        runs = sorted({c.run_id for c in claims})
        states = RuntimeTaskInstance.get_task_states(dag_id=dag_id, task_ids=[task_id], run_ids=runs)
        for claim in claims:
            state = _state(states, claim)
            if state in ("success", "failed", "skipped", "removed") and cancel_claim(
                fleet, claim, f"its Airflow task is {state}"
            ):
                cancelled.append(claim.key)
    return cancelled


def _state(states: dict[str, Any], claim: Any) -> str | None:
    """The state of the claim's task: keys are task ids, with `_<map index>` behind mapped ones."""
    of_run = states.get(claim.run_id, {})
    key = claim.task_id if claim.map_index < 0 else f"{claim.task_id}_{claim.map_index}"
    value = of_run.get(key)
    return None if value is None else str(getattr(value, "value", value))


def sweep_checkpoints() -> dict[str, list[str]]:
    """Ask, prune, name the stale."""
    from gpufleet.services.sweep_checkpoints import sweep_checkpoints

    return sweep_checkpoints(_fleet())


def settle_day(day: str) -> dict[str, Any]:
    """Publish one finance day as provisional."""
    from gpufleet.services.settle_day import settle_day

    return settle_day(_fleet(), day)


def check_day(day: str) -> dict[str, Any]:
    """Look at a settled day before it is published; a failed check fails the task with its sentence, without a retry."""
    from airflow.sdk.exceptions import AirflowFailException

    from gpufleet.errors import Permanent
    from gpufleet.services.publish_night import check_day

    try:
        return check_day(_fleet(), day)
    except Permanent as e:
        raise AirflowFailException(str(e)) from None


def keep_books(day: str) -> dict[str, Any]:
    """What a night does beside its own day."""
    from gpufleet.services.keep_books import keep_books

    return keep_books(_fleet(), day)


def publish_night(day: str) -> dict[str, Any]:
    """The month up to and with the day, as files."""
    from gpufleet.services.publish_night import publish_night

    return publish_night(_fleet(), day)


def open_interruptions() -> list[dict[str, Any]]:
    """For each notice that is not over the run that follows it: the same notice has the same run."""
    from gpufleet.services.interruptions import open_interruptions

    return [
        {"trigger_run_id": f"interruption__{_in_run_id(notice)}", "conf": {"interruption": notice}}
        for notice in open_interruptions(_fleet())
    ]


def _in_run_id(notice: str) -> str:
    """Only what a run id may hold; two notices never become one."""
    legal = re.sub(r"[^A-Za-z0-9_.~:+-]", "-", notice)
    return legal if legal == notice else f"{legal}-{hashlib.sha256(notice.encode()).hexdigest()[:8]}"


def interruption(notice: str) -> dict[str, Any]:
    """Whom it struck, after a tick: who has left, who runs again."""
    from gpufleet.services.interruptions import interruption_view
    from gpufleet.services.prompt_tick import prompt_tick

    fleet = _fleet()
    prompt_tick(fleet, wait=False)
    return interruption_view(fleet, notice)


def open_repartitions() -> list[str]:
    """Names of the layout changes that were decided and are not done."""
    from gpufleet.services.repartitions import open_repartitions

    return list(open_repartitions(_fleet()))


def repartition(name: str) -> dict[str, Any]:
    """How far it is, after a tick. Raises AirflowFailException with the MIG manager's words when it was given up."""
    from airflow.sdk.exceptions import AirflowFailException

    from gpufleet.services.prompt_tick import prompt_tick
    from gpufleet.services.repartitions import repartition_view

    fleet = _fleet()
    prompt_tick(fleet, wait=False)
    view = repartition_view(fleet, name)
    log.info("%(node)s, GPU %(gpu)s: %(state)s %(says)s", view)
    if view["state"] == "failed":
        raise AirflowFailException(f"{view['node']}, GPU {view['gpu']}: {view['says']}")
    return view


# ------------------------------------------------------------------ capacity


def purchases_to_ask(run_id: str) -> list[dict[str, str]]:
    """Purchases that this run asks a person about: of each the subject and the text of the question."""
    from gpufleet.services.approve_purchase import ask_about

    return [
        {
            "subject": f"Buy {one['told']}?",
            "body": f"{one['hourly']} an hour, {one['total']} until its job has ended. Team {one['team']}, "
            f"job {one['job']}.\n\nWhy: {one['why'] or 'its job waits'}.\n\nPurchase `{one['purchase']}`.",
            "purchase": one["purchase"],
        }
        for one in ask_about(_fleet(), run_id)
    ]


def answer_purchase(purchase: str, answer: Any) -> dict[str, Any]:
    """Carry out what a person said: `answer` is what the approval task returned (None: nobody did, which is a no)."""
    from gpufleet.model.tenancy import Principal
    from gpufleet.services.approve_purchase import approve_purchase, purchase_state, turn_down_purchase
    from gpufleet.services.prompt_tick import prompt_tick

    fleet, told = _fleet(), answer or {}
    who = (told.get("responded_by_user") or {}).get("name") or "airflow"
    principal = Principal(who, is_admin=True)  # Airflow let this person answer
    if "Approve" in told.get("chosen_options", ()):
        approve_purchase(fleet, purchase, principal)
        prompt_tick(fleet)
    else:
        turn_down_purchase(fleet, purchase, principal)
    return {"purchase": purchase, **purchase_state(fleet, purchase)}


def purchase_outcome(purchase: str) -> dict[str, Any]:
    """How far a purchase is, after one tick: its machines join, or what did not is given back."""
    from gpufleet.services.approve_purchase import purchase_state
    from gpufleet.services.prompt_tick import prompt_tick

    fleet = _fleet()
    prompt_tick(fleet)
    return {"purchase": purchase, **purchase_state(fleet, purchase)}


def review_capacity() -> dict[str, Any]:
    """The weekly report."""
    from gpufleet.services.review_capacity import review_capacity

    return review_capacity(_fleet())
