"""`python -m tools.kubernetes.build [FAMILY ...]`: build what is missing of the control plane into the cache, once.

A cold build takes about ten minutes on two cores, later calls return at once. A family is built in a folder of its own
that takes its name last, so a killed build leaves nothing half; two builds at once wait for each other.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.kubernetes.families import FAMILIES, Built, Family, cache_folder
from tools.kubernetes.toolchain import go_command

TELL_EVERY: Final = 15.0
"""Seconds between two words of a build that goes on."""
_KEPT_LINES: Final = 40


def build(
    names: tuple[str, ...] = (), tell: Callable[[str], None] = print, families: tuple[Family, ...] = FAMILIES
) -> Built:
    """Everything that is asked for (all families by default), built if it was not. Raises SystemExit with Go's words."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    wanted = [family for family in families if not names or family.name in names]
    if missing := [family for family in wanted if not (cache / family.home).exists()]:
        with _alone(cache, tell):
            go = go_command(cache, tell)
            for family in missing:
                _build_family(family, cache, go, tell)
    return Built(cache)


@contextmanager
def _alone(cache: Path, tell: Callable[[str], None]) -> Iterator[None]:
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another build of the control plane is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_family(family: Family, cache: Path, go: str, tell: Callable[[str], None]) -> None:
    home = cache / family.home
    if home.exists():  # whoever held the lock before us built it
        return
    for left in cache.glob(f".building-{family.name}-*"):
        _remove(left)
    draft = Path(tempfile.mkdtemp(prefix=f".building-{family.name}-", dir=cache))
    try:
        for command in family.commands:
            _build_command(family, command, draft, go, tell)
        _keep(family, draft, go)
        draft.chmod(0o755)
        draft.rename(home)
    finally:
        _remove(draft)


def _build_command(family: Family, command: str, draft: Path, go: str, tell: Callable[[str], None]) -> None:
    name, _, package = command.partition("=")
    began = time.monotonic()
    tell(f"building {name} {family.version}")
    argv = [go, "build", "-v", "-ldflags", family.linker_flags, "-o", str(draft / name), package]
    with subprocess.Popen(
        argv, cwd=family.folder, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            last = _follow(process, name, tell)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise SystemExit(f"{name} could not be built (go build ended with {process.returncode}):\n{last}")
    tell(f"built {name} in {time.monotonic() - began:.0f} s")


def _follow(process: subprocess.Popen[str], name: str, tell: Callable[[str], None]) -> str:
    """Say how far it is, now and then; returns the last lines that Go said."""
    assert process.stderr
    lines: list[str] = []
    told = time.monotonic()
    for number, line in enumerate(process.stderr, start=1):
        lines = [*lines[-_KEPT_LINES:], line]
        if time.monotonic() - told >= TELL_EVERY:
            told = time.monotonic()
            tell(f"  {name}: {number} packages compiled")
    return "".join(lines)


def _environment() -> dict[str, str]:
    """Nothing of the caller's Go settings changes what comes out; where modules come from stays the caller's."""
    kept = {name: value for name, value in os.environ.items() if name not in ("GOOS", "GOARCH", "GOEXPERIMENT")}
    flags = "-mod=readonly -trimpath -buildvcs=false"
    return {**kept, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _keep(family: Family, draft: Path, go: str) -> None:
    """Copy what a start needs of the module's own folder; module folders are read-only, the copies are not."""
    (draft / "kept").mkdir()
    if not family.kept:
        return
    argv = [go, "list", "-m", "-f", "{{.Dir}}", family.module]
    told = subprocess.run(argv, cwd=family.folder, env=_environment(), capture_output=True, text=True, check=True)
    source = Path(told.stdout.strip())
    for path in (found for pattern in family.kept for found in sorted(source.glob(pattern))):
        target = draft / "kept" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes.build", description=__doc__)
    parser.add_argument("family", nargs="*", help=", ".join(family.name for family in FAMILIES))
    given = parser.parse_args().family
    if unknown := set(given) - {family.name for family in FAMILIES}:
        parser.error(f"there is no family {', '.join(sorted(unknown))}")
    build(tuple(given))


if __name__ == "__main__":
    main()
