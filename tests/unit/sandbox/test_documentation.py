"""The examples of docs/sandbox.md are true."""

from __future__ import annotations

import re
from pathlib import Path

from gpufleet.sandbox.world import MachineWish, NodeWish, OfferingWish, World, read_world

DOCUMENT = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text()


def test_its_world_is_a_world(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "world.yaml").write_text(example)
    world = read_world(tmp_path / "world.yaml")
    assert {key for key in World.model_fields if key not in example} == set()
    assert len(world.nodes[1].names) == 2


def test_every_key_is_explained() -> None:
    keys = {*MachineWish.model_fields, *NodeWish.model_fields, *OfferingWish.model_fields}
    assert {key for key in keys if f"`{key}`" not in DOCUMENT} == set()


def test_every_route_is_listed() -> None:
    from gpufleet.sandbox import api

    paths = re.findall(r'@router\.(?:get|post)\("(/[a-z/]+)"\)', Path(api.__file__).read_text())
    assert {path for path in paths if path not in DOCUMENT} == set()
    assert len(paths) == 18
