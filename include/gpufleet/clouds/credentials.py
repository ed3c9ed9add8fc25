"""What an Airflow connection says, as Airflow hands it to a process: the variable AIRFLOW_CONN_<ID>, JSON or a URI.

Nothing of it is in a message. Without a connection the SDK's own chain is used: workload identity, then the host's role.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gpufleet.errors import Invalid


@dataclass(frozen=True, slots=True)
class Connection:
    """Login, password and the extra fields."""

    login: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def connection_named(id: str, environment: Mapping[str, str]) -> Connection:
    """Raises Invalid that names the variable, never what is in it."""
    variable = f"AIRFLOW_CONN_{id.upper()}"
    text = environment.get(variable, "")
    if not text:
        raise Invalid(f"Airflow connection {id} is not known here: set {variable}, or leave `connection` out.")
    try:
        return _json(text) if text.lstrip().startswith("{") else _uri(text)
    except (ValueError, TypeError, AttributeError):
        raise Invalid(f"{variable} is neither the JSON nor the URI of an Airflow connection.") from None


def _json(text: str) -> Connection:
    told = json.loads(text)
    extra = told.get("extra") or {}
    return Connection(
        str(told.get("login") or ""),
        str(told.get("password") or ""),
        json.loads(extra) if isinstance(extra, str) else extra,
    )


def _uri(text: str) -> Connection:
    url = urlsplit(text)
    extra = dict(parse_qsl(url.query))
    return Connection(
        unquote(url.username or ""), unquote(url.password or ""), json.loads(extra.pop("__extra__", "{}")) | extra
    )


def aws_session(found: Connection) -> dict[str, str]:
    """Keyword arguments of a boto3 session."""
    told = {
        "aws_access_key_id": found.login,
        "aws_secret_access_key": found.password,
        "aws_session_token": str(found.extra.get("aws_session_token", "")),
        "profile_name": str(found.extra.get("profile_name", "")),
    }
    return {key: value for key, value in told.items() if value}


def gcp_key(found: Connection) -> dict[str, Any]:
    """A service account's key, from the extra field `keyfile_dict`."""
    key = found.extra.get("keyfile_dict")
    told = json.loads(key) if isinstance(key, str) else key
    if not isinstance(told, dict):
        raise Invalid("The Airflow connection of a Google Cloud needs the extra field keyfile_dict.")
    return told


def azure_secret(found: Connection) -> dict[str, str]:
    tenant = str(found.extra.get("tenantId", found.extra.get("tenant_id", "")))
    if not (found.login and found.password and tenant):
        raise Invalid("The Airflow connection of an Azure cloud needs login, password and the extra field tenantId.")
    return {"tenant_id": tenant, "client_id": found.login, "client_secret": found.password}
