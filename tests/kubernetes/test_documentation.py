"""What docs/kubernetes-tests.md says is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml
from tools.kubernetes.families import FAMILIES

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
