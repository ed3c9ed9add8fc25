"""What docs/kubernetes-tests.md and docs/airflow-on-kubernetes.md say is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import yaml
from tests.kubernetes.test_rendered_objects import folder
from tools.kubernetes.families import FAMILIES

from gpufleet.clusters.kubernetes.rendering.controllers import HOME, controller

PROJECT = Path(__file__).parents[2]
DOCUMENT = (PROJECT / "docs" / "kubernetes-tests.md").read_text()


def test_its_example_starts_a_plane_and_makes_nodes(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    code = example.replace("/tmp/plane", str(tmp_path))
    told = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert yaml.safe_load(Path(told.stdout.strip()).read_text())["kind"] == "Config"


def test_its_table_names_what_is_built() -> None:
    rows = re.findall(r"^\| (\w+) \| (.+?) \| (v\d\S+) \|$", DOCUMENT, re.MULTILINE)
    assert {name: version for name, _, version in rows} == {family.name: family.version for family in FAMILIES}
    commands = {command.partition("=")[0] for family in FAMILIES for command in family.commands}
    assert {command for _, told, _ in rows for command in re.findall(r"[a-z][a-z-]+", told.split("(")[0])} == commands


def test_every_door_it_names_is_in_the_makefile() -> None:
    doors = re.findall(r"(?:^|`)make ([a-z-]+)", DOCUMENT, re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert doors and set(doors) <= set(targets)


ON_KUBERNETES = (PROJECT / "docs" / "airflow-on-kubernetes.md").read_text()


def test_the_objects_for_airflow_on_kubernetes_are_what_the_api_takes(client: httpx.Client) -> None:
    objects, values = re.findall(r"```yaml\n(.*?)```", ON_KUBERNETES, re.DOTALL)
    controller_itself = controller("main", "registry.example.com/gpufleet:1")
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpufleet-system"}}
    client.post("/api/v1/namespaces", json=system)
    for one in [*yaml.safe_load_all(objects), controller_itself]:
        answer = client.post(folder(one), params={"dryRun": "All", "fieldValidation": "Strict"}, json=one)
        assert answer.is_success, answer.text
    pod = controller_itself["spec"]["template"]["spec"]
    claim, secret = (one["metadata"]["name"] for one in yaml.safe_load_all(objects))
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": secret}}]
    told = yaml.safe_load(values)
    assert told["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim
    assert yaml.safe_load(told["extraEnvFrom"]) == [{"secretRef": {"name": secret}}]
    assert told["volumeMounts"][0]["mountPath"] == told["env"][0]["value"] == HOME
