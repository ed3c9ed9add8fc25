"""How often a job should save."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpufleet.errors import Invalid
from gpufleet.lifecycle.cadence import best_interval

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)

STORIES = {
    # save, between interruptions, notice, least, most -> minutes
    "a minute's save and an interruption every two hours": (MINUTE, 2 * HOUR, 0 * MINUTE, MINUTE, HOUR, 14.83),
    "rarer interruptions, rarer saves": (MINUTE, 50 * HOUR, 0 * MINUTE, MINUTE, 3 * HOUR, 76.80),
    "the team's least holds": (SECOND, HOUR, 0 * MINUTE, 5 * MINUTE, HOUR, 5),
    "and its most": (MINUTE, 50 * HOUR, 0 * MINUTE, MINUTE, 30 * MINUTE, 30),
    "a save as long as the peace lasts": (10 * MINUTE, 4 * MINUTE, 0 * MINUTE, MINUTE, HOUR, 4),
    "two minutes of notice are enough for half a minute's save": (
        30 * SECOND,
        HOUR,
        2 * MINUTE,
        MINUTE,
        20 * MINUTE,
        20,
    ),
    "half a minute of notice is not": (30 * SECOND, HOUR, 30 * SECOND, MINUTE, 20 * MINUTE, 7.41),
}


@pytest.mark.parametrize(("save", "between", "notice", "least", "most", "want"), STORIES.values(), ids=STORIES)
def test_interval(
    save: timedelta, between: timedelta, notice: timedelta, least: timedelta, most: timedelta, want: float
) -> None:
    assert best_interval(save, between, notice, least, most) / MINUTE == pytest.approx(want, abs=0.01)


def test_it_loses_less_than_half_and_twice_as_often() -> None:
    save, between = MINUTE, 3 * HOUR
    best = best_interval(save, between, 0 * MINUTE, SECOND, 9 * HOUR)

    def overhead(interval: timedelta) -> float:
        """Time spent on saves, and half an interval lost at each interruption."""
        return save / interval + (interval + save) / 2 / between

    assert overhead(best) < overhead(best / 2) and overhead(best) < overhead(best * 2)


@pytest.mark.parametrize("wrong", [(0, 1, 1, 2), (1, 0, 1, 2), (1, 1, 0, 2), (1, 1, 3, 2)])
def test_times_that_make_no_sense_are_refused(wrong: tuple[int, int, int, int]) -> None:
    save, between, least, most = (n * MINUTE for n in wrong)
    with pytest.raises(Invalid, match="must be above 0"):
        best_interval(save, between, 0 * MINUTE, least, most)
