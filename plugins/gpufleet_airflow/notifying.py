"""Tells people how a night went: by mail where the connection `gpufleet_mail` is, by a webhook where `gpufleet_webhook` is.

`gpufleet_mail` is an SMTP connection whose extra names `from_email` and `to`; `gpufleet_webhook` an HTTP connection whose
URL takes a JSON object by POST, with its password as bearer token. No connection: nothing is told.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from airflow.sdk import BaseNotifier, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

MAIL: Final = "gpufleet_mail"
WEBHOOK: Final = "gpufleet_webhook"
PATIENCE: Final = 10.0
"""Seconds a webhook may take."""


class NightNotifier(BaseNotifier):
    """For a task of a night: that it was published, or that it failed and why. What cannot be told fails nothing."""

    def __init__(self, *, failed: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.failed = failed

    def notify(self, context: Any) -> None:
        told = failure(context) if self.failed else success(context)
        for name, send in ((MAIL, _mail), (WEBHOOK, _post)):
            try:
                connection = Connection.get(name)
            except AirflowNotFoundException:
                continue
            try:
                send(connection, told, context)
            except Exception:
                self.log.exception("How the night went could not be told through %s", name)


def success(context: Any) -> dict[str, Any]:
    """What was published, and which budgets were passed."""
    ti = context["ti"]
    published, kept = (ti.xcom_pull(task_ids=name) or {} for name in ("publish", "books"))
    return {
        "event": "night-published",
        "day": published.get("day"),
        "total": published.get("total"),
        "currency": published.get("currency"),
        "charges": published.get("charges"),
        "published": published.get("published"),
        "where": published.get("to"),
        "corrections": kept.get("corrections", 0),
        "closed": kept.get("closed", []),
        "budgets": kept.get("alerts", []),
        "url": getattr(ti, "log_url", None),
    }


def failure(context: Any) -> dict[str, Any]:
    """Which task failed, and why."""
    ti, run = context["ti"], context["dag_run"]
    day = (context.get("params") or {}).get("day") or getattr(run, "partition_key", None)
    return {
        "event": "night-failed",
        "day": day,
        "task": ti.task_id,
        "why": str(context.get("exception") or "it was stopped"),
        "url": getattr(ti, "log_url", None),
    }


def sentence(told: dict[str, Any]) -> str:
    """One line for people."""
    if told["event"] == "night-failed":
        return f"The night of {told['day']} was not published: {told['task']} failed"
    budgets = ", ".join(f"{b['team']} passed {b['per_cent']} % of its budget" for b in told["budgets"])
    return f"The night of {told['day']} is published: {told['currency']} {told['total']} this month" + (
        f"; {budgets}" if budgets else ""
    )


def _post(connection: Any, told: dict[str, Any], context: Any) -> None:
    import httpx

    headers = {"authorization": f"Bearer {connection.password}"} if connection.password else {}
    answer = httpx.post(_url(connection), json={"text": sentence(told), **told}, headers=headers, timeout=PATIENCE)
    answer.raise_for_status()


def _url(connection: Any) -> str:
    """As Airflow's HTTP connections are written: the host may hold the whole URL, the scheme stands in `schema`."""
    if "://" in (connection.host or ""):
        return str(connection.host)
    port = f":{connection.port}" if connection.port else ""
    path = (connection.extra_dejson or {}).get("path", "")
    return f"{connection.schema or 'https'}://{connection.host}{port}{path}"


def _mail(connection: Any, told: dict[str, Any], context: Any) -> None:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    rows = "".join(f"<tr><td>{escape(key)}</td><td>{escape(str(value))}</td></tr>" for key, value in told.items())
    to = (connection.extra_dejson or {}).get("to") or connection.login
    line = sentence(told)
    text = f"<p>{escape(line)}.</p><table>{rows}</table>"
    SmtpNotifier(smtp_conn_id=MAIL, to=to, subject=f"gpufleet: {line}", html_content=text).notify(context)
