"""The night's checks find what is wrong and name it; a sound night passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from tests.money_stories import month_of_everything

from gpufleet.exports.checks import Expected, check_night
from gpufleet.model.charge import Charge, ChargeKind

NIGHT = [c for c in month_of_everything() if c.day == date(2026, 3, 10) and not c.corrects]
HOURS = sum(c.hours_nano for c in NIGHT if c.kind is not ChargeKind.UNUSED)
TEAMS, NODES = frozenset({"vision", "nlp", "platform"}), frozenset({"r1", "s1", "a1"})
SOUND = Expected(sum(c.cost_nano for c in NIGHT), HOURS, 0, 0, TEAMS, NODES)


def changed(**values: object) -> Callable[[], list[Charge]]:
    return lambda: [replace(NIGHT[0], **values), *NIGHT[1:]]  # type: ignore[arg-type]


WRONG = {
    "a nano-unit is missing": (changed(cost_nano=NIGHT[0].cost_nano - 1), "sum_to_be_between on cost_nano failed"),
    "an hour too much": (changed(hours_nano=NIGHT[0].hours_nano + 1), "sum_to_be_between on hours_nano failed"),
    "a charge told twice": (
        lambda: [*NIGHT, replace(NIGHT[0], cost_nano=0, hours_nano=0)],
        "be_unique on id failed: 2 rows",
    ),
    "a team nobody knows": (changed(team="nobody"), "in_set on team failed: 1 rows, such as 'nobody' in rows 0"),
    "a node nobody knows": (changed(node="n-x"), "in_set on node failed: 1 rows, such as 'n-x'"),
    "a price beyond all sense": (changed(price_nano=10**15), "be_between on price_nano failed: 1 rows"),
    "hours below nothing": (changed(hours_nano=-1), "be_between on hours_nano failed: 1 rows"),
    "a night without any charge": (list, "row_count_to_be_between on the table failed: found 0, expected 1"),
}


def test_a_sound_night_passes_and_leaves_its_documents(tmp_path: Path) -> None:
    assert check_night(NIGHT, SOUND, "2026-03-10", tmp_path) == (len(NIGHT), [])
    assert (tmp_path / "index.html").is_file()


@pytest.mark.parametrize(("night", "what"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(night: Callable[[], list[Charge]], what: str, tmp_path: Path) -> None:
    _, found = check_night(night(), SOUND, "2026-03-10", tmp_path)
    assert any(what in sentence for sentence in found), found
    assert all(sentence.startswith("check of 2026-03-10: expect_") for sentence in found)
