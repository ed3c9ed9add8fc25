"""What docs/kubernetes-setup.md says of pods, teams and fabrics is so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.builders import node, on
from tests.gangs import counted, gang, rendered, variables

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.rendering.fabrics import FABRICS
from gpufleet.clusters.kubernetes.rendering.override_policy import refusals

DOCUMENT = (Path(__file__).parents[3] / "docs" / "kubernetes-setup.md").read_text()


def section(title: str) -> str:
    return DOCUMENT.split(f"## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> set[str]:
    """What stands in backticks in the first column of a table."""
    cells = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def test_its_variables_are_those_of_a_pod() -> None:
    config = PodConfig(image="a:1", rendezvous_key="k")
    first = rendered(gang(on("n0", 0), on("n1", 0), env=()), node("n0"), node("n1"), config=config).pods[0]
    assert first_cells(section("What a job's pod finds")) == set(variables(first)) - {"PYTHONUNBUFFERED"}


def test_its_fabrics_are_those_that_are_known() -> None:
    assert first_cells(section("Fabrics")) == set(FABRICS)


def test_the_volumes_it_names_are_allowed() -> None:
    allowed = re.search(r"volumes \((.*?)\)", section("What a team may change"), re.DOTALL)
    assert allowed
    volumes = [{"name": f"v{n}", kind: {}} for n, kind in enumerate(re.findall(r"`(\w+)`", allowed[1]))]
    (pod,) = rendered(gang(on("n0", 0)), counted()).pods
    assert len(volumes) == 5 and list(refusals(pod, {"spec": {"volumes": volumes}}, ())) == []
