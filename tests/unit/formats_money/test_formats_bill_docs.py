"""Every example of docs/formats-bill.md runs as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from gpufleet.exports.statement_csv import statement_csv

GUIDE = Path(__file__).parents[3] / "docs" / "formats-bill.md"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_bill_of_the_guide(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(block("jsonl"))
    (tmp_path / "rates.yaml").write_text(block("yaml"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block("bash")], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == block("json")


def test_the_statement_of_the_guide() -> None:
    answer = json.loads(block("json")) | {"day": "2026-03-10", "state": "provisional"}
    assert statement_csv(answer) == block("csv")
