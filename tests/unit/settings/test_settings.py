"""Config files: an unknown key or a wrong value names file and key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from tests.fleets import WORLD, lay_out_home

from gpufleet.bootstrap import set_up
from gpufleet.errors import Invalid
from gpufleet.procurement.guards import TeamGuard
from gpufleet.settings import guards, home_from, load_settings

WRONG = {
    "an unknown key": ("fleet.yaml", {"colour": "red"}, "fleet.yaml: colour: is not a known key"),
    "an unknown key further down": ("fleet.yaml", {"buying": {"by_after": "1s"}}, "buying.by_after: is not a known key"),
    "a duration nobody writes": ("fleet.yaml", {"buying": {"buy_after": "soon"}}, "buying.buy_after: 'soon' is not"),
    "a fleet without a name": ("fleet.yaml", {"fleet": ""}, "fleet.yaml: fleet:"),
    "a world of no kind": ("fleet.yaml", {"clusters": [{"name": "x", "kind": "moon"}]}, "fleet.yaml: clusters.0.kind:"),
    "a team in no queue": (
        "teams.yaml", {"teams": [{"name": "a", "queue": "nosuch", "projects": ["p"]}]}, "team 'a' names queue 'nosuch'",
    ),
    "a team in a parent": (
        "teams.yaml",
        {
            "queues": [{"name": "top"}, {"name": "l", "parent": "top"}],
            "teams": [{"name": "a", "queue": "top", "projects": ["p"]}],
        },
        "which is a parent; only leaf queues take jobs",
    ),
    "a circle of queues": (
        "teams.yaml", {"queues": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}], "teams": []}, "its own ancestor",
    ),
    "a queue twice": ("teams.yaml", {"queues": [{"name": "a"}, {"name": "a"}], "teams": []}, "queue 'a' stands there twice"),
    "a weight without end": ("teams.yaml", {"queues": [{"name": "a", "weight": float("inf")}], "teams": []}, "queues.0.weight:"),
    "an amount below nothing": ("teams.yaml", {"queues": [{"name": "a", "limit": {"*": -1}}], "teams": []}, "queues.0.limit.*:"),
    "a model nobody makes": (
        "teams.yaml", {"queues": [{"name": "a", "limit": {"H100": 4}}], "teams": []}, "GPU model 'H100'",
    ),
    "two sandboxes in one home": (
        "fleet.yaml", {"clusters": [{"name": "x", "kind": "sandbox"}, {"name": "y", "kind": "sandbox"}]}, "at most one cluster",
    ),
    "a timeout below nothing": ("fleet.yaml", {"recovery": {"start_timeout": "9999999d"}}, "recovery.start_timeout:"),
    "the root by name": ("teams.yaml", {"queues": [{"name": "root"}], "teams": []}, "queue 'root' is there by itself"),
    "a parent that is not there": (
        "teams.yaml", {"queues": [{"name": "a", "parent": "nosuch"}], "teams": []}, "queue 'a' names parent 'nosuch'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("file", "change", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_settings(tmp_path: Path, file: str, change: dict[str, object], sentence: str) -> None:
    lay_out_home(tmp_path, WORLD)
    path = tmp_path / file
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    with pytest.raises(Invalid) as refused:
        load_settings(tmp_path, {})
    assert sentence in str(refused.value)


HANDED = {
    "a queue that is not there": ([["nosuch"]], "hands queue 'nosuch' to kueue"),
    "a queue with queues below it": ([["top"]], "hands queue 'top' to kueue"),
    "a queue that two schedulers have": ([["leaf"], ["leaf"]], "queue 'leaf' is handed over twice"),
}


@pytest.mark.parametrize(("queues", "sentence"), HANDED.values(), ids=HANDED)
def test_wrong_hand_off(tmp_path: Path, queues: list[list[str]], sentence: str) -> None:
    lay_out_home(tmp_path, WORLD)
    _hand_over(tmp_path, queues)
    with pytest.raises(Invalid) as refused:
        load_settings(tmp_path, {})
    assert sentence in str(refused.value)


def test_a_handed_queue_is_known_with_its_cluster(tmp_path: Path) -> None:
    lay_out_home(tmp_path, WORLD)
    _hand_over(tmp_path, [["leaf"]])
    assert load_settings(tmp_path, {}).handed == {"leaf": "east"}


def _hand_over(home: Path, queues: list[list[str]]) -> None:
    handoff = [{"scheduler": "kueue", "queues": some} for some in queues]
    fleet, teams = home / "fleet.yaml", home / "teams.yaml"
    world = {"name": "east", "kind": "kubernetes", "handoff": handoff}
    fleet.write_text(yaml.safe_dump({**yaml.safe_load(fleet.read_text()), "clusters": [world]}))
    teams.write_text(
        yaml.safe_dump({"version": 1, "teams": [], "queues": [{"name": "top"}, {"name": "leaf", "parent": "top"}]})
    )


def test_the_demo_config_loads(tmp_path: Path) -> None:
    lay_out_home(tmp_path, WORLD)
    settings = load_settings(tmp_path, {})
    assert [team.name for team in settings.teams] == ["vision", "language", "platform"]
    assert settings.database_url == f"sqlite:///{tmp_path}/gpufleet.db"


def test_rates_with_instants_are_kept_as_written_and_a_wrong_key_shows_at_setup(tmp_path: Path) -> None:
    lay_out_home(tmp_path, WORLD)
    rates = tmp_path / "rates.yaml"
    entry = "{match: {model: H100-80}, from: 2026-01-01T00:00:00Z, per_gpu_hour: '3.00'}"
    rates.write_text(f"version: 1\ncurrency: USD\nprices:\n  - {entry}\n")
    set_up(load_settings(tmp_path, {})).database.dispose()
    rates.write_text(f"version: 1\ncurrency: USD\ncolour: red\nprices:\n  - {entry}\n")
    with pytest.raises(Invalid, match=r"rates\.yaml.*colour"):
        set_up(load_settings(tmp_path, {}))


def test_no_home_says_what_to_set() -> None:
    with pytest.raises(Invalid, match="set GPUFLEET_HOME"):
        home_from({})


def test_a_folder_that_is_no_fleet(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"has no fleet\.yaml"):
        home_from({"GPUFLEET_HOME": str(tmp_path)})


def test_guard_rails_of_the_file_are_those_of_the_fleet_and_buying_is_off_unless_switched_on(tmp_path: Path) -> None:
    lay_out_home(tmp_path, WORLD)
    path = tmp_path / "fleet.yaml"
    told = {"max_hourly": 5, "teams": {"vision": {"daily": 7, "regions": ["eu"]}}, "billed_by": {"azure": "1h"}}
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "buying": told}))
    found = guards(load_settings(tmp_path, {}).file)
    assert found.dry_run and found.team("vision") == TeamGuard(7, ("eu",)) and found.team("other") == TeamGuard()
    assert dict(found.billed_by) == {"azure": timedelta(hours=1)}
