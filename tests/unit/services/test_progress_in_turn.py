"""Thousands of progress files are not read in one round, and none is forgotten."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpufleet.services.progress import AT_ONCE, in_turn
from gpufleet.store.jobs import AttemptRow

NOW = datetime(2026, 3, 10, tzinfo=UTC)


def attempts(count: int) -> list[AttemptRow]:
    return [
        AttemptRow(f"j{n}", 1, "running", "main", NOW, NOW, None, None, "", None, None, None, None)
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, AT_ONCE + 1, 7 * AT_ONCE + 3])
def test_every_attempt_has_its_turn_and_no_round_reads_too_many(count: int) -> None:
    every = attempts(count)
    rounds = [in_turn(every, number) for number in range(8)]
    assert all(len(some) <= AT_ONCE for some in rounds)
    assert {a.job for some in rounds for a in some} == {a.job for a in every}
    if count <= AT_ONCE:
        assert all(list(some) == every for some in rounds), "few are read every time"
