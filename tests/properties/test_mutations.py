"""The tests are tested: ten rules broken by hand, one at a time, and every one is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutations import RULES, Broken, break_rule, copy_of_the_project, try_all


@pytest.mark.parametrize("rule", RULES, ids=[r.name for r in RULES])
def test_every_rule_still_stands_where_the_list_says(rule: Broken, tmp_path: Path) -> None:
    copy_of_the_project(tmp_path)
    broken = break_rule(tmp_path, rule)
    assert rule.broken in broken.read_text()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_fast_tests_notice_every_broken_rule() -> None:
    assert [name for name, test in try_all(RULES).items() if test is None] == []
