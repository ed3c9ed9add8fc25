"""Every example of docs/month-close.md and docs/reconciliation.md runs as it stands, as a person runs it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.charges import NANO, charge

from gpufleet.bootstrap import set_up
from gpufleet.errors import Invalid
from gpufleet.services.fleet import Fleet
from gpufleet.services.metered_charges import settle_again
from gpufleet.settings import load_settings
from gpufleet.store import ledger
from gpufleet.store.charges import put_charges

DOCS = Path(__file__).parents[3] / "docs"
TEN = datetime(2026, 2, 10, 10, tzinfo=UTC)
FILES = {
    "fleet.yaml": "version: 1\nfleet: test\nclusters: [{name: here, kind: sandbox}]\n",
    "teams.yaml": "version: 1\nqueues: [{name: q}]\nteams: [{name: vision, queue: q, projects: [digits], members: "
    "[{login: fina, role: platform}]}]\n",
    "rates.yaml": 'version: 1\ncurrency: USD\nprices: [{per_gpu_hour: "2.00"}]\n',
}


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "finance.yaml").write_text(blocks("month-close.md", "yaml")[0])
    return set_up(load_settings(tmp_path, {}))


def hear(fleet: Fleet, event: str, hours: int, **rest: Any) -> None:
    at = TEN + timedelta(hours=hours)
    told = {"id": f"{event}-{hours}", "at": at, "event": event, "node": "n1", "facts": {}, "recorded_at": at} | rest
    with fleet.database.write() as connection:
        ledger.add_usage(connection, **told)


def transcript(fleet: Fleet, name: str) -> tuple[str, str]:
    """What the document says, and what happens; a hash is SHA in both."""
    (told,) = blocks(name, "console")
    env = {**os.environ, "GPUFLEET_HOME": str(fleet.home), "GPUFLEET_USER": "fina"}
    env.pop("GPUFLEET_DATABASE_URL", None)
    found = ""
    for line in re.findall(r"^\$ gpufleet (.*)$", told, flags=re.MULTILINE):
        words = [sys.executable, "-m", "gpufleet", *shlex.split(line)]
        done = subprocess.run(words, env=env, cwd=fleet.home, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), line
        found += f"$ gpufleet {line}\n{done.stdout}"
    return told, re.sub(r"\b[0-9a-f]{64}\b", "SHA", found)


def test_the_month_of_the_guide(fleet: Fleet) -> None:
    held = {"job": "j", "attempt": 1, "gpu": 0}
    hear(
        fleet,
        "node-up",
        0,
        facts={"model": "H100-80", "gpus": 1, "capacity": "owned", "provider": "owned", "region": ""},
    )
    hear(fleet, "allocated", 0, **held, team="vision", project="digits", facts={"quota": "guaranteed"})
    hear(fleet, "released", 2, **held)
    hear(fleet, "node-down", 3)
    settle_again(fleet, [date(2026, 2, 10)], "provisional")
    told, happened = transcript(fleet, "month-close.md")
    assert happened == told


def test_a_mistake_in_finance_yaml_shows_at_setup(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "finance.yaml").write_text("version: 1\nclose_on: 31\n")
    with pytest.raises(Invalid, match=r"finance.yaml, line 2: close_on: must be at most 28"):
        set_up(load_settings(tmp_path, {}))


def test_the_invoice_of_the_guide(fleet: Fleet) -> None:
    (fleet.home / "aws.csv").write_text(blocks("reconciliation.md", "csv")[0])
    with fleet.database.write() as connection:
        status: dict[str, Any] = {"revision": 1, "currency": "USD", "total_nano": 8 * NANO, "answer": {}}
        ledger.put_day(connection, "2026-03-10", [], state="estimated", published_at=TEN, **status)
        put_charges(connection, date(2026, 3, 10), [charge(node="i-0aaa", cost=8, provider="aws")])
    told, happened = transcript(fleet, "reconciliation.md")
    assert happened == told
