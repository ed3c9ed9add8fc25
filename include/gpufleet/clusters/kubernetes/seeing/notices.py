"""What the node agent wrote on its node: the cloud's notices that have a deadline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from gpufleet.clusters.kubernetes.rendering.names import digest
from gpufleet.clusters.kubernetes.seeing.reading import Raw, instant, text
from gpufleet.model.capacity import InterruptionNotice

NOTICES: Final = "gpufleet.io/notices"
KINDS: Final = ("spot", "maintenance")
_LONGEST: Final = 120
"""Letters of an id; the database has room for a few more."""


def notices_of(raw: Raw, instance: str | None) -> tuple[InterruptionNotice, ...]:
    """Never raises. A cloud's id is told apart by its node: one event may name many machines."""
    return tuple(_notices(raw, text(raw, "metadata", "name"), instance or ""))


def _notices(raw: Raw, node: str, instance: str) -> Iterator[InterruptionNotice]:
    try:
        told = json.loads(text(raw, "metadata", "annotations", NOTICES) or "[]")
    except (ValueError, RecursionError):
        return
    for one in told if isinstance(told, list) else ():
        at, deadline, name = instant(one, "at"), instant(one, "deadline"), text(one, "id")
        if at is not None and deadline is not None and name:
            kind = text(one, "kind")
            yield InterruptionNotice(_id(node, name), instance, node, at, deadline, kind if kind in KINDS else KINDS[0])


def _id(node: str, name: str) -> str:
    whole = f"{node}/{name}"
    return whole if len(whole) <= _LONGEST else digest(whole, 32)
