"""finance.yaml: what it may say, and what is said where it is wrong."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from gpufleet.chargeback.finance import Finance
from gpufleet.errors import Invalid
from gpufleet.formats.finance import load_finance, read_finance


def test_without_a_file_months_close_on_the_tenth_and_nothing_is_given_back(tmp_path: Path) -> None:
    assert load_finance(tmp_path / "finance.yaml") == Finance(10, Fraction(0), {}, (50, 80, 100), Fraction(1, 100))


def test_everything_can_be_said() -> None:
    text = (
        'version: 1\nclose_on: 12\ncredits: {platform-loss: share, share: "0.5"}\n'
        'budgets: {vision: "5000.00"}\nalerts: [90]\ntolerance: "0.05"\n'
    )
    assert read_finance(text, "f") == Finance(12, Fraction(1, 2), {"vision": Fraction(5000)}, (90,), Fraction(1, 20))
    assert read_finance("version: 1\ncredits: {platform-loss: all}", "f").credit_share == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: 2", "version 2 is not known; it is 1."),
        ("version: 1\nbudget: {}", "unknown key 'budget'"),
        ("version: 1\nclose_on: 31", "must be at most 28"),
        ('version: 1\ncredits: {platform-loss: all, share: "1"}', "'share' (0 to 1) goes with"),
        ("version: 1\ncredits: {platform-loss: share}", "'share' (0 to 1) goes with"),
        ('version: 1\ncredits: {platform-loss: share, share: "2"}', "must be at most 1"),
        ("version: 1\ncredits: {platform-loss: some}", "it is one of none, all, share"),
        ("version: 1\nalerts: [80, 50]", "in rising order"),
        ("version: 1\nbudgets: {vision: 1.5}", "is not an amount"),
    ],
)
def test_a_mistake_is_named(text: str, told: str) -> None:
    with pytest.raises(Invalid) as why:
        read_finance(text, "finance.yaml")
    assert told in str(why.value) and "finance.yaml, line" in str(why.value)
