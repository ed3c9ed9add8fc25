"""The first day of a world, the days after a restart, and the ledger's clock."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from tests.sandboxes import WORLD
from tests.unit.sandbox.worlds import T0, pretended, wish

from gpufleet.errors import Invalid
from gpufleet.sandbox import machines
from gpufleet.sandbox.caretaker import turn
from gpufleet.sandbox.founding import found


def test_a_fast_ledger_starts_at_midnight(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    assert world.site.ledger_now() == T0.replace(hour=0)
    world.pass_time(60)
    assert world.site.ledger_now() == T0


def test_a_plain_ledger_shows_real_time(tmp_path: Path) -> None:
    world = pretended(tmp_path, clock={"factor": 1})
    world.pass_time(60)
    assert world.site.ledger_now() == T0 + timedelta(seconds=60)


def test_the_ledger_moves_forward_and_runs_on(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    world.site.move_ledger(T0 + timedelta(days=3))
    world.pass_time(1)
    assert world.site.ledger_now() == T0 + timedelta(days=3, seconds=720)


def test_the_ledger_never_goes_back(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    world.pass_time(100)
    with pytest.raises(Invalid, match="never goes back"):
        world.site.move_ledger(T0)


def test_the_ledger_runs_on_while_the_sandbox_is_down(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    world.clock.advance(timedelta(seconds=60))
    assert world.restarted().site.ledger_now() == T0


def test_another_factor_does_not_move_the_ledger(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    world.pass_time(60)
    found(world.site.book, wish(clock={"factor": 1}), world.clock.now())
    world.pass_time(60)
    assert world.site.ledger_now() == T0 + timedelta(seconds=60)


def test_a_machine_that_is_gone_stays_gone(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    with turn(world.site):
        machines.fail(world.site, "spot-a0")
    world.pass_time(5)
    assert "spot-a0" not in world.restarted().site.book.machines


def test_a_machine_the_file_newly_names_is_added(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    more = {"name": "new", "model": "A100-80", "gpus": 4, "position": ["zone-a", "leaf-a1"]}
    found(world.site.book, wish(nodes=[*WORLD["nodes"], more]), world.clock.now())
    assert len(world.site.book.machines["new"].devices) == 4


def test_prices_come_from_the_file_and_what_is_left_from_the_book(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    dearer = {**WORLD["offerings"][0], "price": "13", "available": 99}
    found(world.site.book, wish(offerings=[dearer]), world.clock.now())
    stock = world.site.book.stock["spot-h100-a"]
    assert (stock.price, stock.available) == (Fraction(13), 4)


def test_what_the_file_no_longer_names_is_sold_out(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    found(world.site.book, wish(offerings=[], nodes=[]), world.clock.now())
    assert world.site.book.stock["spot-h100-a"].available == 0


def test_other_levels_are_another_world(tmp_path: Path) -> None:
    world = pretended(tmp_path)
    with pytest.raises(Invalid, match="use another --home for another world"):
        found(world.site.book, wish(levels=["zone"], nodes=[], offerings=[]), world.clock.now())
