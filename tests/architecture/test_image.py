"""The image cannot be built here, so what it says is held against the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
LOCKS = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-bench.txt",
    "requirements-clouds.txt",
    "tools/uv.txt",
    "tools/kubernetes/go.txt",
)
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.IGNORECASE)


def pins(name: str) -> dict[str, set[str]]:
    """package -> pinned versions (one for each Python the lock speaks of)."""
    found: dict[str, set[str]] = {}
    for line in (PROJECT / name).read_text().splitlines():
        if match := PINNED.match(line):
            found.setdefault(match[1].lower().replace("_", "-"), set()).add(match[2])
    return found


def test_it_starts_from_the_airflow_that_is_pinned() -> None:
    version = next(iter(pins("requirements.txt")["apache-airflow"]))
    assert f"FROM apache/airflow:{version}-python3.11" in DOCKERFILE


def test_everything_it_copies_is_there() -> None:
    copied = [w for line in re.findall(r"^COPY (?:--\S+ )*(.*)$", DOCKERFILE, re.MULTILINE) for w in line.split()[:-1]]
    assert copied and [path for path in copied if not (PROJECT / path).exists()] == []


def test_every_requirement_is_pinned_with_hashes() -> None:
    for name in LOCKS:
        blocks = re.split(r"\n(?=\S)", (PROJECT / name).read_text().strip())
        assert [b.splitlines()[0] for b in blocks if not PINNED.match(b) or "--hash=sha256:" not in b] == []


def test_what_the_project_asks_for_is_in_the_lock_and_both_locks_agree() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    runtime, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["airflow"], *extras["demo"]]
    names = {re.split(r"[\[=<>~ ]", a)[0].lower() for a in asked}
    assert names <= runtime.keys()
    assert {re.split(r"[\[=<>~ ]", a)[0].lower() for a in extras["test"]} <= dev.keys()
    assert {n: (v, dev.get(n)) for n, v in runtime.items() if dev.get(n) != v} == {}


def test_what_draws_charts_has_a_lock_of_its_own_that_moves_nothing_else() -> None:
    asked = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["bench"]
    runtime, bench = pins("requirements.txt"), pins("requirements-bench.txt")
    assert {a.partition("==")[0] for a in asked} == bench.keys() - runtime.keys()
    assert {n: (v, bench[n]) for n, v in runtime.items() if n in bench and bench[n] != v} == {}


def test_what_buys_in_clouds_has_a_lock_of_its_own_that_moves_nothing_else() -> None:
    asked = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["clouds"]
    clouds = pins("requirements-clouds.txt")
    assert {a.partition("==")[0] for a in asked} <= clouds.keys()
    for other in (pins("requirements.txt"), pins("requirements-dev.txt")):
        assert {n: (v, other[n]) for n, v in clouds.items() if n in other and other[n] != v} == {}


def test_no_lock_names_a_registry() -> None:
    for name in LOCKS:
        assert not re.search(r"https?://|index-url|find-links", (PROJECT / name).read_text())
