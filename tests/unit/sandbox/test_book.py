"""The book: what was committed is on disk, what was not never happened."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.sandbox.worlds import PretendedSite, ask, pretended, slice_on, whole

from gpufleet.errors import Temporary
from gpufleet.sandbox import gangs
from gpufleet.sandbox.book import Book
from gpufleet.sandbox.caretaker import turn


@pytest.fixture
def world(tmp_path: Path) -> PretendedSite:
    return pretended(tmp_path)


def test_every_record_comes_back_as_it_was(world: PretendedSite) -> None:
    gangs.launch(world.site, ask("a", whole("res-0", 0, cpu=1.5), slice_on("res-0", 7, "1g.10gb", 6)))
    world.pass_time(1)
    read, book = Book(world.site.folder / "state.db"), world.site.book
    assert read.facts == book.facts
    for ours, theirs in zip(_shelves(book), _shelves(read), strict=True):
        assert dict(ours) == dict(theirs)  # type: ignore[call-overload]


def test_a_rollback_leaves_nothing(world: PretendedSite) -> None:
    book = world.site.book
    before = dict(book.machines)
    book.machines.put(replace(book.machines["res-0"], cordoned=True))
    book.machines.put(replace(book.machines["res-0"], name="other"))
    book.machines.drop("spot-a0")
    book.rollback()
    assert dict(book.machines) == before


def test_a_request_that_fails_leaves_nothing(world: PretendedSite) -> None:
    book = world.site.book
    before = dict(book.machines)
    with pytest.raises(ZeroDivisionError), turn(world.site):
        book.machines.drop("res-0")
        raise ZeroDivisionError
    assert dict(book.machines) == before


def test_a_full_disk_is_temporary_and_leaves_nothing(world: PretendedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(world.site.book, "_write_row", full)
    with pytest.raises(Temporary, match="could not write its state to disk"):
        gangs.launch(world.site, ask("a", whole("res-0", 0)))
    assert not world.site.book.gangs
    assert not world.runner.starts


def _shelves(book: Book) -> tuple[object, ...]:
    return book.machines, book.gangs, book.removed, book.stock, book.instances, book.notices
