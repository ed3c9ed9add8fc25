"""Azure: Scheduled Events. A spot machine has thirty seconds from `Preempt`, other events come minutes ahead."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from gpufleet.node_agent.clouds.base import METADATA, listed, mapping
from gpufleet.node_agent.notices import Kind, Notice, instant

_EVENTS: Final = "/metadata/scheduledevents?api-version=2020-07-01"
_KINDS: Final = {
    "Preempt": Kind.SPOT,
    "Terminate": Kind.SPOT,
    "Reboot": Kind.MAINTENANCE,
    "Redeploy": Kind.MAINTENANCE,
}
"""A `Freeze` of some seconds ends nothing."""
PREEMPTION: Final = timedelta(seconds=30)


class Azure:
    """Events name every machine of a group; those of others are passed over."""

    def __init__(self, machine: str = "", base: str = METADATA) -> None:
        self._machine = machine.lower()
        self._http = httpx.Client(base_url=base, timeout=5.0, trust_env=False, headers={"Metadata": "true"})

    def notices(self, now: datetime) -> tuple[Notice, ...]:
        said = self._http.get(_EVENTS).raise_for_status().json()
        events = listed(mapping(said).get("Events"))
        return tuple(_notice(event, now) for event in events if self._concerns(event))

    def _concerns(self, event: dict[str, Any]) -> bool:
        machines = [str(name).lower() for name in event.get("Resources") or []]
        mine = not self._machine or any(self._machine == name for name in machines)
        return mine and event.get("EventType") in _KINDS and bool(event.get("EventId"))


def _notice(event: dict[str, Any], now: datetime) -> Notice:
    """An event without a time has begun."""
    kind = _KINDS[str(event["EventType"])]
    deadline = _gmt(event.get("NotBefore")) or (now + PREEMPTION if kind is Kind.SPOT else now)
    return Notice(str(event["EventId"]), kind, now, deadline)


def _gmt(text: Any) -> datetime | None:
    try:
        return instant(parsedate_to_datetime(text).isoformat())
    except (TypeError, ValueError):
        return instant(text)
