"""A night from the ledger to its files: whole or not at all, once however often, and never without its checks."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import fsspec
import pytest
from sqlalchemy import update

from gpufleet.clock import ManualClock
from gpufleet.errors import Invalid, Permanent
from gpufleet.exports import publish as publishing
from gpufleet.model.tenancy import Principal
from gpufleet.services import publish_night as service
from gpufleet.services.close_month import close_month
from gpufleet.services.fleet import Fleet
from gpufleet.services.publish_night import check_day, publish_night
from gpufleet.services.settle_day import settle_day
from gpufleet.store import ledger
from gpufleet.store import schema as t
from gpufleet.store.database import Database

INVOICES = "focus_invoice_detail.csv"
FIRST = datetime(2026, 2, 1, 10, tzinfo=UTC)
DAYS = ("2026-02-01", "2026-02-02")


RATES = {
    "version": 1,
    "currency": "USD",
    "timezone": "UTC",
    "idle": "proportional",
    "prices": [{"match": {}, "per_gpu_hour": "2.333333"}],
    "shared_costs": [
        {"name": "storage", "amount": "100.00", "from": "2026-02-01", "to": "2026-03-01", "split": "even"}
    ],
}


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    found = Fleet("test", tmp_path, database, {}, {}, ManualClock(FIRST + timedelta(days=40)), checkpoints_url="")
    with database.write() as connection:
        ledger.put_rates(connection, RATES, FIRST)
    return found


@pytest.fixture
def tell(fleet: Fleet) -> Callable[..., None]:
    def write(id: str, event: str, at: datetime, **rest: Any) -> None:
        with fleet.database.write() as connection:
            ledger.add_usage(
                connection, id=id, at=at, event=event, recorded_at=fleet.clock.now(), **{"node": "n1", **rest}
            )

    write("up", "node-up", FIRST, facts={"model": "H100-80", "gpus": 4, "capacity": "on-demand"})
    for job, gpu, team, hours in (("j", 0, "vision", 30), ("k", 1, "vision", 7), ("l", 2, "nlp", 11)):
        held = {"job": job, "attempt": 1, "gpu": gpu}
        write(f"{job}-a", "allocated", FIRST, **held, team=team, project="p", facts={})
        write(f"{job}-r", "released", FIRST + timedelta(hours=hours), **held, facts={})
    write("down", "node-down", FIRST + timedelta(hours=31), facts={})
    return write


@pytest.fixture
def night(fleet: Fleet, tell: Callable[..., None]) -> Fleet:
    for day in DAYS:
        settle_day(fleet, day)
    return fleet


def files(fleet: Fleet) -> dict[str, bytes]:
    root = fleet.home / "exports"
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file() and p.suffix != ""}


def latest(fleet: Fleet) -> Path:
    root = fleet.home / "exports"
    return Path(root / json.loads((root / "latest.json").read_text())["path"])


def test_every_file_is_there_and_the_manifest_knows_it(night: Fleet) -> None:
    check_day(night, DAYS[1])
    told = publish_night(night, DAYS[1])
    folder = latest(night)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == {
        *manifest["files"],
        "manifest.json",
    }
    for name, facts in manifest["files"].items():
        data = (folder / name).read_bytes()
        assert (facts["bytes"], facts["sha256"]) == (len(data), sha256(data).hexdigest())
    assert {*service.FILES, "index.html"} - set(manifest["files"]) == {INVOICES}, "teams are invoiced after the close"
    assert INVOICES not in (folder / "index.html").read_text()
    assert (manifest["total"], manifest["standing"], manifest["month"]) == (told["total"], "provisional", "2026-02")
    rows = list(csv.DictReader((folder / "focus_cost_and_usage.csv").open()))
    assert len(rows) == manifest["charges"]
    exact = sum(Decimal(row["EffectiveCost"]) for row in rows)
    assert abs(exact - Decimal(manifest["total"])) <= Decimal("0.005")


def test_a_closed_month_is_published_with_its_invoices(night: Fleet) -> None:
    for n in range(28):
        settle_day(night, (FIRST.date() + timedelta(days=n)).isoformat())
    close_month(night, "2026-02", Principal("root", is_admin=True))
    publish_night(night, "2026-02-28")
    folder = latest(night)
    assert json.loads((folder / "manifest.json").read_text())["standing"] == "closed"
    assert f'href="{INVOICES}"' in (folder / "index.html").read_text()
    invoiced = sum(Decimal(r["BilledCost"]) for r in csv.DictReader((folder / INVOICES).open()))
    rows = list(csv.DictReader((folder / "focus_cost_and_usage.csv").open()))
    assert invoiced == sum(Decimal(r["BilledCost"]) for r in rows) and all(r["InvoiceId"] for r in rows)


def test_published_twice_is_published_once(night: Fleet) -> None:
    publish_night(night, DAYS[1])
    first = files(night)
    settle_day(night, DAYS[1])
    publish_night(night, DAYS[1])
    assert files(night) == first


def test_an_older_night_published_again_does_not_take_the_place_of_the_newest(night: Fleet) -> None:
    publish_night(night, DAYS[1])
    newest = latest(night)
    publish_night(night, DAYS[0])
    assert latest(night) == newest


def test_two_at_once_leave_one_whole_set(night: Fleet) -> None:
    with ThreadPoolExecutor(2) as both:
        told = list(both.map(publish_night, [night, night], [DAYS[1], DAYS[1]]))
    assert told[0] == told[1]
    assert [p for p in files(night) if p.endswith("manifest.json")] == [
        str(latest(night).relative_to(night.home / "exports") / "manifest.json")
    ]
    assert not [p for p in files(night) if "draft" in p]


def test_killed_in_the_middle_nobody_reads_half_a_night(night: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_night(night, DAYS[0])
    before = latest(night)
    real, left = publishing._put, iter([])

    def killed(*args: Any) -> None:
        next(left)

    monkeypatch.setattr(publishing, "_put", killed)
    with pytest.raises(StopIteration):
        publish_night(night, DAYS[1])
    assert latest(night) == before, "files without a manifest and a pointer are nobody's"
    monkeypatch.setattr(publishing, "_put", real)
    publish_night(night, DAYS[1])
    assert latest(night) != before and (latest(night) / "manifest.json").is_file()


def test_a_day_that_fails_its_check_is_not_published_and_says_why(night: Fleet) -> None:
    publish_night(night, DAYS[0])
    before = files(night)
    with night.database.write() as connection:
        connection.execute(update(t.charge).where(t.charge.c.day == "2026-02-02").values(team="nobody"))
    with pytest.raises(Permanent, match=r"2026-02-02 is not published: check of .* on team failed: .* 'nobody'"):
        check_day(night, DAYS[1])
    assert files(night) == before
    assert (night.home / "data-docs" / DAYS[1] / "index.html").is_file()


def test_a_day_that_is_not_settled_is_said_so(night: Fleet) -> None:
    with pytest.raises(Invalid, match="2026-02-09 is not settled"):
        check_day(night, "2026-02-09")


def test_an_object_store_takes_it_as_a_folder_does(night: Fleet) -> None:
    (night.home / "finance.yaml").write_text(
        "version: 1\npublish_to: memory://books\ncost_centres: {vision: 'A'}\ndefault_cost_centre: 'Z'\n"
    )
    publish_night(night, DAYS[1])
    publish_night(night, DAYS[1])
    store = fsspec.filesystem("memory")
    pointer = json.loads(store.cat_file("/books/latest.json"))
    manifest = json.loads(store.cat_file(f"/books/{pointer['manifest']}"))
    assert all(store.exists(f"/books/{pointer['path']}/{name}") for name in manifest["files"])
    assert len([p for p in store.find("/books") if p.endswith("manifest.json")]) == 1
    store.rm("/books", recursive=True)


def test_what_is_wrong_in_finance_yaml_is_named(night: Fleet) -> None:
    (night.home / "finance.yaml").write_text("version: 1\nkeep_day: 5\n")
    with pytest.raises(Invalid, match=r"finance.yaml.*keep_day"):
        publish_night(night, DAYS[1])


def test_old_nights_go_and_the_last_of_each_month_stays(night: Fleet) -> None:
    (night.home / "finance.yaml").write_text("version: 1\nkeep_days: 2\n")
    for n in range(2, 7):
        settle_day(night, (FIRST.date() + timedelta(days=n)).isoformat())
    for n in range(7):
        publish_night(night, (FIRST.date() + timedelta(days=n)).isoformat())
    kept = sorted(p.name[4:14] for p in (night.home / "exports" / "period=2026-02").iterdir() if p.is_dir())
    assert kept == ["2026-02-05", "2026-02-06", "2026-02-07"]
