"""world.yaml: what it may say, and how a mistake in it is told."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from tests.sandboxes import WORLD

from gpufleet.errors import Invalid
from gpufleet.sandbox.world import read_world

NODE = {"name": "n", "model": "H100-80", "gpus": 2, "position": ["z", "l"]}
OFFER = {
    "name": "o",
    "zone": "z",
    "leaf": "l",
    "instance_type": "t",
    "capacity": "spot",
    "model": "H100-80",
    "gpus": 8,
    "price": "12.10",
}


def test_a_world_is_read(tmp_path: Path) -> None:
    world = read_world(_write(tmp_path, WORLD))
    assert [name for node in world.nodes for name in node.names] == ["res-0", "spot-a0", "spot-a1"]
    assert (world.clock.factor, world.notice) == (720, timedelta(seconds=10))
    assert (world.offerings[0].price, world.offerings[0].path) == (Fraction(12), ("zone-a", "leaf-a1"))


@pytest.mark.parametrize("price", ["12.10", 12.10])
def test_prices_are_exact(tmp_path: Path, price: object) -> None:
    world = read_world(_write(tmp_path, {"version": 1, "offerings": [{**OFFER, "price": price}]}))
    assert world.offerings[0].price == Fraction(121, 10)


MISTAKES = {
    "an unknown key": ({"version": 1, "node": []}, "unknown key 'node'"),
    "an unknown key deeper": ({"version": 1, "nodes": [{**NODE, "gpu": 8}]}, "unknown key 'nodes[0].gpu'"),
    "a key that is missing": ({"nodes": []}, "'version': Field required"),
    "another version": ({"version": 2}, "'version': Input should be 1"),
    "nothing at all": (None, "'the document': Input should be a valid dictionary"),
    "an unknown model": (
        {"version": 1, "nodes": [{**NODE, "model": "H99"}]},
        "'n': GPU model 'H99' is not in the catalogue",
    ),
    "a place without a level": (
        {"version": 1, "nodes": [{**NODE, "position": ["z"]}]},
        "'n' is at ['z'], but the levels",
    ),
    "an illegal layout": (
        {"version": 1, "nodes": [{**NODE, "layout": {0: ["2g.20gb@1"]}}]},
        "'n', layout of GPU 0: 2g.20gb may not start at 1",
    ),
    "no MIG instance": ({"version": 1, "nodes": [{**NODE, "layout": {0: ["2g"]}}]}, "'2g' is not a MIG instance"),
    "a layout of no GPU": ({"version": 1, "nodes": [{**NODE, "layout": {2: []}}]}, "'n' has no GPU 2; it has 0 to 1"),
    "one name twice": ({"version": 1, "nodes": [NODE, NODE]}, "two nodes are called 'n'"),
    "one offering twice": ({"version": 1, "offerings": [OFFER, OFFER]}, "two offerings are called 'o'"),
    "a count without numbers": ({"version": 1, "nodes": [{**NODE, "count": 2}]}, "'n' has a count of 2"),
    "an offering nobody sells": (
        {"version": 1, "nodes": [{**NODE, "offering": "p"}]},
        "'n': no offering is called 'p'",
    ),
    "a duration": ({"version": 1, "notice": "soon"}, "'notice': 'soon' is not a duration"),
    "a price": ({"version": 1, "offerings": [{**OFFER, "price": "cheap"}]}, "'cheap' is not an amount"),
    "a price below zero": ({"version": 1, "offerings": [{**OFFER, "price": "-1"}]}, "'-1' is below zero"),
    "a clock that stands": ({"version": 1, "clock": {"factor": 0}}, "'clock.factor': Input should be greater than 0"),
    "a reclaim of what is owned": (
        {"version": 1, "nodes": [NODE], "reclaims": [{"at": "1s", "node": "n"}]},
        "reclaims: 'n' is not a node with an offering",
    ),
}


@pytest.mark.parametrize(("raw", "want"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_file_and_key(tmp_path: Path, raw: object, want: str) -> None:
    path = _write(tmp_path, raw)
    with pytest.raises(Invalid) as error:
        read_world(path)
    assert str(error.value).startswith(f"{path}: ")
    assert want in str(error.value)


def test_what_is_not_yaml_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_text("nodes: [")
    with pytest.raises(Invalid, match="is not YAML"):
        read_world(path)


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read: No such file"):
        read_world(tmp_path / "world.yaml")


def _write(folder: Path, raw: object) -> Path:
    path = folder / "world.yaml"
    path.write_text(yaml.safe_dump(raw if not isinstance(raw, dict) else dict(raw)))
    return path
