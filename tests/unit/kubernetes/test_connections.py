"""A cluster named by an Airflow connection: every way the cncf provider writes one, and a sentence for each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from gpufleet.clusters.kubernetes.connections import access_by_connection, from_environment
from gpufleet.errors import Invalid

TOKEN = "not-for-anybodys-eyes"


def config(server: str = "http://one.example") -> dict[str, Any]:
    return {
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "one", "user": "me"}},
            {"name": "other", "context": {"cluster": "two", "user": "me"}},
        ],
        "clusters": [
            {"name": "one", "cluster": {"server": server}},
            {"name": "two", "cluster": {"server": "http://two.example"}},
        ],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
    }


def as_json(**extra: Any) -> str:
    return json.dumps({"conn_type": "kubernetes", "extra": extra})


WRITTEN = {
    "the config as JSON": as_json(kube_config=config()),
    "the config as text": as_json(kube_config=json.dumps(config())),
    "the extra as text": json.dumps({"conn_type": "kubernetes", "extra": json.dumps({"kube_config": config()})}),
    "with the names of old": as_json(extra__kubernetes__kube_config=json.dumps(config())),
    "as a URI": "kubernetes://?" + urlencode({"kube_config": json.dumps(config())}),
    "as a URI with one extra": "kubernetes://?" + urlencode({"__extra__": json.dumps({"kube_config": config()})}),
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_the_way_in_is_found(text: str) -> None:
    access = access_by_connection("east", "", lambda _: text)
    assert (access.server, access.fixed) == ("http://one.example", f"Bearer {TOKEN}")


def test_a_context_of_the_connection_and_one_of_the_fleet_that_wins() -> None:
    text = as_json(kube_config=config(), cluster_context="other")
    assert access_by_connection("east", "", lambda _: text).server == "http://two.example"
    assert access_by_connection("east", "main", lambda _: text).server == "http://one.example"


def test_a_file_that_the_connection_names(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config()))
    assert (
        access_by_connection("east", "", lambda _: as_json(kube_config_path=str(file))).server == "http://one.example"
    )


WRONG = {
    "not there": (None, "no Airflow connection 'east' here: set AIRFLOW_CONN_EAST"),
    "nothing in it": (as_json(), "names no cluster"),
    "no JSON": ("{", "is not a JSON object"),
    "a config that is no config": (as_json(kube_config={"users": [{"name": "me", "user": {"token": TOKEN}}]}), "connection east"),
    "a config that is no JSON": (as_json(kube_config=f"token: {TOKEN}"), "its kube_config is not a JSON object"),
    "a pod that is none": (as_json(in_cluster=True), "runs in no pod"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_told_without_what_the_connection_holds(text: str | None, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        access_by_connection("east", "", lambda _: text)
    assert sentence in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_our_own_processes_read_the_variable_that_airflow_reads() -> None:
    assert from_environment("east", {"AIRFLOW_CONN_EAST": "{}"}) == "{}"
    assert from_environment("west", {"AIRFLOW_CONN_EAST": "{}"}) is None
