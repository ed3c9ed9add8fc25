"""Ten rules of the engine broken by hand, one at a time: the fast tests must notice every one.

    python -m tools.mutations [WORD ...]          # all ten, or those whose name has one of the words

Works on a copy in a temporary folder; the tree itself is never touched. Prints the first test that failed for each.
Status 1 when a broken rule went unnoticed, 2 when a rule no longer stands where the list says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
COPIED = ("include", "tests", "pyproject.toml")
FAST = ("tests/scenarios", "tests/unit/scheduling", "tests/unit/placement", "tests/unit/quota")
"""The part of `make fast` that looks at the engine."""
FAILED = re.compile(r"^FAILED (\S.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule, the line it stands on, and what stands there once it is broken."""

    name: str
    file: str
    rule: str
    broken: str


RULES = (
    Broken(
        "a limit bounds what a queue starts",
        "quota/usage.py",
        "if ANY_MODEL in limit and sum(used.values()) + grains > limit[ANY_MODEL]:",
        "if ANY_MODEL in limit and sum(used.values()) + grains > limit[ANY_MODEL] * 2:",
    ),
    Broken(
        "work that may not be preempted stays inside what is deserved",
        "quota/usage.py",
        "return is_within(self.tree.deserved(queue), self.fixed(queue), model, grains)",
        "return True",
    ),
    Broken(
        "nobody within what it deserves loses to another queue",
        "quota/rules.py",
        "if self.is_within_any(theirs, model):\n            return False",
        "if False:\n            return False",
    ),
    Broken(
        "equal priority never preempts",
        "scheduling/preempt.py",
        "return run.job.queue == job.queue and run.job.priority < job.priority",
        "return run.job.queue == job.queue and run.job.priority <= job.priority",
    ),
    Broken(
        "training never stops a service",
        "scheduling/victims.py",
        "if (service or not sort.service) and allowed(run))",
        "if allowed(run))",
    ),
    Broken(
        "nobody is stopped in vain",
        "scheduling/victims.py",
        "if session.fits(pending, nodes):\n            kept.remove(one)",
        "if False:\n            kept.remove(one)",
    ),
    Broken(
        "a queue promises every start its time",
        "scheduling/roster.py",
        "if queue is not None and now - run.started_at < queue.min_runtime:",
        "if queue is not None and now - run.started_at > queue.min_runtime > now - run.started_at:",
    ),
    Broken(
        "who has not saved lately does not move",
        "scheduling/roster.py",
        "return now - (run.last_checkpoint_at or run.started_at) <= policy.fresh_checkpoint",
        "return True",
    ),
    Broken(
        "backfill ends before the reserved start",
        "scheduling/backfill.py",
        "and session.now + runtime <= r.start",
        "and session.now <= r.start",
    ),
    Broken(
        "a node on its way out takes nothing",
        "placement/filters.py",
        "if node.state is not NodeState.READY:",
        "if node.state is NodeState.LOST:",
    ),
)


class Moved(Exception):
    """The rule does not stand where the list says; the list must be mended."""


def copy_of_the_project(where: Path) -> None:
    """What the fast tests need, without what was derived."""
    for name in COPIED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, where / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, where / name)


def break_rule(where: Path, rule: Broken) -> Path:
    """Break one rule in the copy; raises Moved when it does not stand there exactly once."""
    file = where / "include" / "gpufleet" / rule.file
    text = file.read_text()
    if text.count(rule.rule) != 1:
        raise Moved(f"{rule.file}: '{rule.name}' stands there {text.count(rule.rule)} times, not once")
    file.write_text(text.replace(rule.rule, rule.broken))
    return file


def first_failure(where: Path) -> str | None:
    """The first fast test that fails in the copy, None when all pass. Raises RuntimeError where none could run."""
    environment = os.environ | {"PYTHONPATH": str(where / "include"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "--tb=no", *FAST]
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the tests could not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    found = FAILED.search(done.stdout)
    return found[1] if found else None


def try_all(rules: Sequence[Broken]) -> dict[str, str | None]:
    """Rule -> the first test that noticed it was broken, None where none did. The whole copy must pass first."""
    noticed: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory(prefix="gpufleet-mutations-") as folder:
        where = Path(folder)
        copy_of_the_project(where)
        if failure := first_failure(where):
            raise RuntimeError(f"a test fails before anything is broken: {failure}")
        for rule in rules:
            whole = (where / "include" / "gpufleet" / rule.file).read_text()
            file = break_rule(where, rule)
            noticed[rule.name] = first_failure(where)
            file.write_text(whole)
            print(f"{rule.name}: {noticed[rule.name] or 'NOBODY NOTICED'}", flush=True)
    return noticed


def main() -> int:
    words = sys.argv[1:]
    chosen = [rule for rule in RULES if not words or any(word in rule.name for word in words)]
    try:
        return 1 if None in try_all(chosen).values() else 0
    except Moved as why:
        print(why, file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
