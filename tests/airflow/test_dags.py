"""The DAG files: they parse cheaply, say what they are, and hide nothing of our queue. No running Airflow is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
HEAVY = (
    "kubernetes",
    "boto3",
    "great_expectations",
    "pandas",
    "google.cloud",
    "azure",
    "sklearn",
    "scipy",
    "gpufleet.bootstrap",
)

LOOK = """
import json, sys, time
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
began = time.monotonic()
bag = DagBag("dags")
seconds = time.monotonic() - began
def told(dag):
    serialized = [json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str) for _ in range(2)]
    return {
        "tags": sorted(dag.tags), "description": dag.description, "doc": dag.doc_md or "", "owner": dag.owner,
        "catchup": dag.catchup, "max_active_runs": dag.max_active_runs, "max_active_tasks": dag.max_active_tasks,
        "retries": [t.retries for t in dag.tasks], "tasks": sorted(dag.task_dict), "same_twice": serialized[0] == serialized[1],
        "params": sorted(dag.params), "links": sorted({l.name for t in dag.tasks for l in t.operator_extra_links}),
    }
print(json.dumps({"errors": bag.import_errors, "seconds": seconds, "dags": {i: told(d) for i, d in bag.dags.items()},
                  "heavy": [m for m in HEAVY if m in sys.modules]}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a fresh process sees in the folder."""
    home = tmp_path_factory.mktemp("airflow")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "GPUFLEET_"))}
    env = {
        **clean, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"), "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {HEAVY!r}\n{LOOK}"],
        cwd=PROJECT,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


DAGS = (
    "gpu_job",
    "fleet_sync",
    "checkpoint_sweep",
    "chargeback_nightly",
    "procure_capacity",
    "capacity_review",
    "mig_repartition",
    "preemption_recovery",
)


def test_every_dag_imports_and_quickly(found: dict[str, Any]) -> None:
    assert found["errors"] == {}
    assert sorted(found["dags"]) == sorted(DAGS)
    assert found["seconds"] < 0.5 * len(DAGS) * 2  # half a second a file, doubled for a busy machine


def test_parsing_loads_nothing_heavy(found: dict[str, Any]) -> None:
    assert found["heavy"] == []


@pytest.mark.parametrize("dag_id", DAGS)
def test_a_dag_says_what_it_is(found: dict[str, Any], dag_id: str) -> None:
    dag = found["dags"][dag_id]
    assert "gpufleet" in dag["tags"] and dag["description"] and dag["doc"].startswith("### ")
    assert dag["owner"] == "gpufleet" and not dag["catchup"]
    assert all(retries >= 1 for retries in dag["retries"])
    assert dag["same_twice"], "serialised twice, it must be the same: else Airflow makes a new version at every parse"


def test_gpu_job_hides_nothing_of_our_queue_and_has_the_whole_form(found: dict[str, Any]) -> None:
    dag = found["dags"]["gpu_job"]
    assert (dag["max_active_runs"], dag["max_active_tasks"]) == (10_000, 10_000)
    wanted = {"team", "project", "image", "command", "pods", "gpus", "memory_gib", "kind", "priority", "capacity"}
    wanted.add("checkpoint_interval")
    assert wanted <= set(dag["params"])
    assert dag["links"] == ["GPU job", "GPU job logs"]


def test_the_form_has_every_key_of_a_request_and_no_other(found: dict[str, Any]) -> None:
    from gpufleet.formats.request import KEYS

    assert set(found["dags"]["gpu_job"]["params"]) == set(KEYS)
