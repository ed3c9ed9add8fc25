"""Airflow connections as the environment carries them."""

from __future__ import annotations

import json

import pytest

from gpufleet.clouds.credentials import aws_session, azure_secret, connection_named, gcp_key
from gpufleet.errors import Invalid

SECRET = "s3cr3t/+"


def test_aws_from_a_uri() -> None:
    found = connection_named("gpus", {"AIRFLOW_CONN_GPUS": "aws://AKIA:s3cr3t%2F%2B@/?aws_session_token=tok"})
    assert aws_session(found) == {
        "aws_access_key_id": "AKIA",
        "aws_secret_access_key": SECRET,
        "aws_session_token": "tok",
    }
    assert SECRET not in repr(found)


def test_azure_from_json() -> None:
    text = json.dumps({"conn_type": "azure", "login": "id", "password": SECRET, "extra": {"tenantId": "t"}})
    found = azure_secret(connection_named("gpus", {"AIRFLOW_CONN_GPUS": text}))
    assert found == {"tenant_id": "t", "client_id": "id", "client_secret": SECRET}


@pytest.mark.parametrize("wrapped", [False, True], ids=["a mapping", "text in text"])
def test_a_google_key(wrapped: bool) -> None:
    key = {"type": "service_account", "private_key": SECRET}
    extra = {"keyfile_dict": json.dumps(key) if wrapped else key}
    text = json.dumps({"conn_type": "google_cloud_platform", "extra": json.dumps(extra) if wrapped else extra})
    assert gcp_key(connection_named("gpus", {"AIRFLOW_CONN_GPUS": text})) == key


@pytest.mark.parametrize("text", ["", '{"login": ', '{"extra": "not json"}', "aws://["])
def test_what_cannot_be_read_names_the_variable_alone(text: str) -> None:
    with pytest.raises(Invalid, match="AIRFLOW_CONN_GPUS"):
        azure_secret(connection_named("gpus", {"AIRFLOW_CONN_GPUS": text} if text else {}))
