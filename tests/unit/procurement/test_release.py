"""Which idle machines go back, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpufleet.model.capacity import CapacityType
from gpufleet.procurement.release import Machine, releases

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IDLE = Machine("i-1", "aws", CapacityType.SPOT, NOW - 90 * MINUTE, "n1", idle_since=NOW - 20 * MINUTE)
HOURLY = {"azure": timedelta(hours=1)}

CASES = {
    "idle for long enough, it goes": (IDLE, (), True),
    "on demand too": (replace(IDLE, capacity=CapacityType.ON_DEMAND), (), True),
    "reserved stays, it is paid anyway": (replace(IDLE, capacity=CapacityType.RESERVED), (), False),
    "idle a moment ago, it stays": (replace(IDLE, idle_since=NOW - 9 * MINUTE), (), False),
    "with work on it, it stays": (replace(IDLE, idle_since=None), (), False),
    "a gang is about to start on it": (IDLE, ("n1",), False),
    "a gang is about to start elsewhere": (IDLE, ("n2",), True),
    "not ready, the cloud may take it by itself": (replace(IDLE, ready=False), (), False),
    "billed by the hour, in the middle of it": (replace(IDLE, cloud="azure"), (), False),
    "billed by the hour, at the end of it": (
        replace(IDLE, cloud="azure", bought_at=NOW - 118 * MINUTE),
        (),
        True,
    ),
    "on its way": (replace(IDLE, node=None, bought_at=NOW - 9 * MINUTE), (), False),
    "it never came": (replace(IDLE, node=None, bought_at=NOW - 10 * MINUTE), (), True),
}


@pytest.mark.parametrize(("machine", "needed", "goes"), CASES.values(), ids=CASES)
def test_a_machine_goes_back(machine: Machine, needed: tuple[str, ...], goes: bool) -> None:
    found = releases([machine], needed, idle_for=10 * MINUTE, billed_by=HOURLY, now=NOW)
    assert [r.machine for r in found] == ([machine] if goes else [])


def test_no_node_of_a_gang_that_is_about_to_start_goes_whatever_else_does() -> None:
    machines = [replace(IDLE, instance=f"i-{n}", node=f"n{n}") for n in range(6)]
    found = releases(machines, {"n1", "n3"}, idle_for=10 * MINUTE, billed_by={}, now=NOW)
    assert [r.machine.node for r in found] == ["n0", "n2", "n4", "n5"]
