"""The last act: the finance day ends, and its bill is published."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from gpufleet.store.ledger import usage_of_job
from tools.demo.acting import Story, StoryBroke
from tools.demo.telling import shell_path


def to_midnight(story: Story) -> datetime:
    """Move the sandbox's ledger clock on to its next midnight."""
    now = story.cluster.observe().cluster_time
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), tzinfo=UTC)
    story.sandbox.post("/v1/clock", json.dumps({"to": midnight.isoformat()}).encode())
    return midnight


def bill(story: Story) -> None:
    tell = story.tell
    tell.act("5", _title(story))
    day = to_midnight(story) - timedelta(days=1) if story.is_sandbox else story.cluster.observe().cluster_time
    run = story.admin.trigger("chargeback_nightly", {"day": f"{day:%Y-%m-%d}"}, partition_key=f"{day:%Y-%m-%d}")
    story.holds(
        lambda: story.admin.run_state("chargeback_nightly", run) in ("success", "failed"), 150, "the nightly run ends"
    )
    answer = story.admin.xcom("chargeback_nightly", run, "settle")
    tell.statement(answer)
    tell.say(
        "train-digits: " + ", ".join(f"attempt {n} {hours:.2f} GPU-hours" for n, hours in _hours(story, "train-digits"))
    )
    if answer["state"] != "provisional" or not Path(answer["csv"]).is_file():
        raise StoryBroke("the day was not published with its CSV")
    parts = [line["total"] for line in answer["lines"]] + [answer["idle"]["cost"], answer["unused_commitment"]["cost"]]
    if sum(map(Decimal, parts)) != Decimal(answer["total"]):
        raise StoryBroke(f"the lines add up to {sum(map(Decimal, parts))}, the total says {answer['total']}")
    tell.held("every line and the total add up to the cost of the fleet")
    files = story.admin.xcom("chargeback_nightly", run, "publish")
    index = Path(files["to"]) / files["published"] / "index.html"
    if not index.is_file():
        raise StoryBroke("the night's files are not there")
    tell.held("the charges passed the night's checks, and sum to the bill")
    tell.say(f"written: {shell_path(Path(answer['csv']))}")
    tell.say(f"FOCUS, workbook, statements, journal: {shell_path(index)}")


def _title(story: Story) -> str:
    if story.is_sandbox:
        return "night falls: chargeback_nightly publishes the (accelerated) day as provisional"
    return "chargeback_nightly publishes today, whose clock nobody moves here, as provisional: what runs is billed to midnight"


def _hours(story: Story, name: str) -> list[tuple[int, float]]:
    """(attempt, GPU-hours) by the ledger: from each allocated to its released."""
    job = str(story.job(name)["job"])
    with story.fleet.database.read() as connection:
        rows = usage_of_job(connection, job)
    began = {(r.attempt, r.node, r.gpu): r.at for r in rows if r.event == "allocated"}
    spent: dict[int, float] = defaultdict(float)
    for row in rows:
        if row.event == "released":
            spent[row.attempt] += (row.at - began[row.attempt, row.node, row.gpu]).total_seconds() / 3600
    return sorted(spent.items())
