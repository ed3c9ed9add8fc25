"""How long a night takes: so many segments of one day, settled from a database of its own.

    python -m benchmarks.ledger 100000 [--publish] [--per-job 10]

Prints seconds, the process's peak memory and how many charges there are. The fleet has 8 GPUs a node, and every GPU gives
100 segments one after the other, of jobs of 40 teams and projects; `--per-job` segments are one job.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from gpufleet.clock import ManualClock
from gpufleet.services.fleet import Fleet
from gpufleet.services.settle_day import settle_day
from gpufleet.store import ledger
from gpufleet.store.database import Database
from gpufleet.store.migrate import migrate

DAY = datetime(2026, 3, 10, tzinfo=UTC)
ON_ONE_GPU, GPUS = 100, 8
LENGTH = timedelta(minutes=14)
RATES = {"version": 1, "currency": "USD", "prices": [{"match": {}, "per_gpu_hour": "2.40"}]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("segments", type=int)
    parser.add_argument("--publish", action="store_true", help="the month's files too")
    parser.add_argument("--per-job", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpufleet-ledger-") as folder:
        fleet = fleet_of(Path(folder), asked.segments, asked.per_job)
        began = time.monotonic()
        told = settle_day(fleet, f"{DAY:%Y-%m-%d}")
        print(
            f"settled {asked.segments} segments in {time.monotonic() - began:.1f} s, total {told['total']}, peak {_peak()} MiB"
        )
        if asked.publish:
            from gpufleet.services.publish_night import publish_night

            began = time.monotonic()
            found = publish_night(fleet, f"{DAY:%Y-%m-%d}")
            print(f"published {found['charges']} charges in {time.monotonic() - began:.1f} s, peak {_peak()} MiB")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def fleet_of(folder: Path, segments: int, per_job: int = 1) -> Fleet:
    """A fleet in the folder whose ledger holds a day of so many segments, so many of them to a job."""
    database = Database(f"sqlite:///{folder / 'ledger.db'}")
    fleet = Fleet("bench", folder, database, {}, {}, ManualClock(DAY + timedelta(days=1)), checkpoints_url="")
    migrate(database)
    left = _events(segments, per_job)
    while some := list(islice(left, 5_000)):
        with database.write() as connection:
            ledger.add_usages(connection, some, DAY)
    with database.write() as connection:
        ledger.put_rates(connection, RATES, DAY)
    return fleet


def _events(segments: int, per_job: int) -> Iterator[dict[str, Any]]:
    for node in range(-(-segments // (ON_ONE_GPU * GPUS))):
        shape = {"model": "H100-80", "gpus": GPUS, "capacity": "on-demand"}
        yield {"id": f"up-{node}", "at": DAY, "event": "node-up", "node": f"n{node}", "facts": shape}
    for n in range(segments):
        gpu, turn = divmod(n, ON_ONE_GPU)
        begin = DAY + turn * LENGTH
        held = {"node": f"n{gpu // GPUS}", "gpu": gpu % GPUS, "job": f"job-{n // per_job}", "attempt": 1}
        owner = {"team": f"team-{n // per_job % 10}", "project": f"project-{n // per_job % 40}"}
        facts = {"quota": "guaranteed" if n % 3 else "over-quota"}
        yield {"id": f"a{n}", "at": begin, "event": "allocated", **held, **owner, "facts": facts}
        yield {"id": f"r{n}", "at": begin + LENGTH, "event": "released", **held, "facts": {}}


if __name__ == "__main__":
    main()
