"""What another scheduler says about a job that it was handed: one word for the state, its own words for the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """`evicted` = its scheduler took it off; that ends the attempt, not the job."""

    UNSEEN = "unseen"
    """Its scheduler has not looked at it yet."""
    WAITING = "waiting"
    ADMITTED = "admitted"
    EVICTED = "evicted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Admission:
    """`reason` is the scheduler's own word, `detail` its sentence, `position` counts from 1 where it tells one."""

    stage: Stage
    reason: str = ""
    detail: str = ""
    position: int | None = None


def conditions(raw: Any, key: str = "conditions") -> Iterator[tuple[str, bool, str, str]]:
    """(type, whether it holds, reason, message) of each condition; what is no condition is passed over."""
    status = raw.get("status") if isinstance(raw, Mapping) else None
    found = status.get(key) if isinstance(status, Mapping) else None
    for item in found if isinstance(found, list) else ():
        if isinstance(item, Mapping):
            yield str(item.get("type")), item.get("status") == "True", _text(item, "reason"), _text(item, "message")


def phase(raw: Any) -> str:
    status = raw.get("status") if isinstance(raw, Mapping) else None
    return _text(status, "phase") if isinstance(status, Mapping) else ""


def _text(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""
