"""AWS: IMDSv2. A spot notice comes two minutes ahead, a rebalance recommendation perhaps earlier."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import httpx

from gpufleet.node_agent.clouds.base import METADATA, listed, mapping
from gpufleet.node_agent.notices import Kind, Notice, instant

_TOKEN_SECONDS: Final = 21_600
_ENDING: Final = ("terminate", "stop", "hibernate")
_SPOT: Final = "/latest/meta-data/spot/instance-action"
_REBALANCE: Final = "/latest/meta-data/events/recommendations/rebalance"
_SCHEDULED: Final = "/latest/meta-data/events/maintenance/scheduled"


class Aws:
    """Holds the session token, and gets another when it is not taken any more."""

    def __init__(self, base: str = METADATA) -> None:
        self._http = httpx.Client(base_url=base, timeout=2.0, trust_env=False)
        self._token = ""

    def notices(self, now: datetime) -> tuple[Notice, ...]:
        spot, risk, scheduled = (self._get(path) for path in (_SPOT, _REBALANCE, _SCHEDULED))
        return (*_spot(spot, now), *_risk(risk), *_scheduled(scheduled, now))

    def _get(self, path: str) -> Any:
        """None for what is not announced: the service says 404 then."""
        answer = self._ask(path)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._token = ""
            answer = self._ask(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return _json(answer.raise_for_status())

    def _ask(self, path: str) -> httpx.Response:
        if not self._token:
            wanted = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)}
            self._token = self._http.put("/latest/api/token", headers=wanted).raise_for_status().text
        return self._http.get(path, headers={"X-aws-ec2-metadata-token": self._token})


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _spot(said: Any, now: datetime) -> tuple[Notice, ...]:
    """A time that cannot be read is no reason to wait."""
    action = mapping(said).get("action")
    if action not in _ENDING:
        return ()
    deadline = instant(said.get("time"))
    return (Notice(f"aws-spot-{deadline.isoformat() if deadline else ''}", Kind.SPOT, now, deadline or now),)


def _risk(said: Any) -> tuple[Notice, ...]:
    at = instant(mapping(said).get("noticeTime"))
    return (Notice(f"aws-rebalance-{at.isoformat()}", Kind.RISK, at),) if at else ()


def _scheduled(said: Any, now: datetime) -> tuple[Notice, ...]:
    return tuple(
        Notice(str(event.get("EventId")), Kind.MAINTENANCE, now, _not_before(event.get("NotBefore")))
        for event in listed(said)
        if event.get("State") == "active" and event.get("EventId")
    )


def _not_before(text: Any) -> datetime | None:
    """`21 Jan 2027 09:00:43 GMT`, unlike everything else there."""
    try:
        return datetime.strptime(text, "%d %b %Y %H:%M:%S %Z").replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return instant(text)
