"""A cluster reached through an Airflow connection of type `kubernetes`, as the cncf provider keeps it.

What stands in its extra (apache-airflow-providers-cncf-kubernetes, "Kubernetes cluster connection"): `in_cluster`,
`kube_config_path`, `kube_config` (JSON, as text or as it is), `cluster_context`; older ones begin with
`extra__kubernetes__`. What the extra holds is never part of a message.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from gpufleet.clusters.kubernetes.access import Access, access_from, access_of, in_cluster
from gpufleet.errors import Invalid

Lookup = Callable[[str], str | None]
"""The text of a connection by its id, as Airflow writes it: JSON or a URI; None when there is none."""
OLD: Final = "extra__kubernetes__"


def from_environment(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """`AIRFLOW_CONN_<ID>`, which Airflow and our own processes read alike."""
    return environment.get(f"AIRFLOW_CONN_{name.upper()}")


def access_by_connection(name: str, context: str, lookup: Lookup) -> Access:
    """The way in that the connection holds; `context` wins over its own. Raises Invalid that says what to mend."""
    text = lookup(name)
    if text is None:
        raise Invalid(
            f"There is no Airflow connection '{name}' here: set AIRFLOW_CONN_{name.upper()} for the controller, too, or name "
            "a kubeconfig in fleet.yaml."
        )
    extra = {key.removeprefix(OLD): value for key, value in _extra(name, text).items()}
    context = context or str(extra.get("cluster_context") or "")
    if _is_true(extra.get("in_cluster")):
        return in_cluster(os.environ)
    if raw := extra.get("kube_config"):
        return access_of(_json(name, raw, "its kube_config"), f"connection {name}", context)
    if path := extra.get("kube_config_path"):
        return access_from(str(path), context)
    raise Invalid(
        f"Airflow connection '{name}' names no cluster: give it a kube_config, a kube_config_path or in_cluster."
    )


def _extra(name: str, text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        extra = _json(name, text, "it").get("extra") or {}
        return _json(name, extra, "its extra")
    query = {key: values[-1] for key, values in parse_qs(urlsplit(text).query).items()}
    return _json(name, query["__extra__"], "its extra") if "__extra__" in query else query


def _json(name: str, value: Any, what: str) -> dict[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Invalid(f"Airflow connection '{name}': {what} is not a JSON object.")
    return found


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "1")
