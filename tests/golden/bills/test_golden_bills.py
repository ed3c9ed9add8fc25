"""Every story of this folder, to the last decimal; the numbers were worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.bills.stories import Story, as_bytes, read_stories, shown

STORIES = list(read_stories(Path(__file__).parent))


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name.replace(" ", "-"))
def test_story(story: Story) -> None:
    told = story.told()
    assert shown(told) == story.want
    story.events.reverse()
    assert as_bytes(story.told()) == as_bytes(told), "the order of lines means nothing"


def test_there_are_stories() -> None:
    assert len(STORIES) > 40
