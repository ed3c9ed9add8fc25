"""How the objects of other schedulers tell their state: conditions and a phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


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
