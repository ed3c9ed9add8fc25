"""What a cloud says about the future of this node, in one shape for all clouds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

URGENT: Final = timedelta(minutes=5)
"""A node that has less left ends its pods at once; with more, they are asked to save and the controller moves them."""


class Kind(StrEnum):
    """`risk` is a cloud's guess that a spot notice may come."""

    SPOT = "spot"
    MAINTENANCE = "maintenance"
    RISK = "risk"


@dataclass(frozen=True, slots=True, order=True)
class Notice:
    """`id` is the cloud's own where it has one, so hearing it twice is once. `deadline` is None where none is set."""

    id: str
    kind: Kind
    at: datetime
    deadline: datetime | None = None

    def is_urgent(self, now: datetime) -> bool:
        return self.deadline is not None and self.deadline - now <= URGENT


def instant(text: Any) -> datetime | None:
    """An ISO instant as the clouds write it; None for anything else."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def dump(notices: Iterable[Notice]) -> str:
    """As the annotation of the node has them."""
    return json.dumps([_values(notice) for notice in sorted(notices)])


def _values(notice: Notice) -> dict[str, str | None]:
    deadline = notice.deadline.isoformat() if notice.deadline else None
    return {"id": notice.id, "kind": notice.kind.value, "at": notice.at.isoformat(), "deadline": deadline}
