"""GCP: a preempted machine has thirty seconds; maintenance that ends it is announced an hour ahead for GPU machines."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import httpx

from gpufleet.node_agent.clouds.base import METADATA
from gpufleet.node_agent.notices import Kind, Notice

PREEMPTION: Final = timedelta(seconds=30)
MAINTENANCE: Final = timedelta(hours=1)
_HEADERS: Final = {"Metadata-Flavor": "Google"}
_INSTANCE: Final = "/computeMetadata/v1/instance"
_ENDS: Final = "TERMINATE_ON_HOST_MAINTENANCE"


class Gcp:
    """Remembers when it first heard of something: the service says that it is so, and not since when."""

    def __init__(self, base: str = METADATA) -> None:
        self._http = httpx.Client(base_url=base, timeout=2.0, trust_env=False, headers=_HEADERS)
        self._since: dict[Kind, datetime] = {}

    def notices(self, now: datetime) -> tuple[Notice, ...]:
        found = []
        for kind, path, word, ahead in (
            (Kind.SPOT, "preempted", "TRUE", PREEMPTION),
            (Kind.MAINTENANCE, "maintenance-event", _ENDS, MAINTENANCE),
        ):
            if self._get(path) == word:
                since = self._since.setdefault(kind, now)
                found.append(Notice(f"gcp-{kind}-{since.isoformat()}", kind, since, since + ahead))
            else:
                self._since.pop(kind, None)
        return tuple(found)

    def _get(self, path: str) -> str:
        answer = self._http.get(f"{_INSTANCE}/{path}")
        return "" if answer.status_code == httpx.codes.NOT_FOUND else answer.raise_for_status().text.strip()
