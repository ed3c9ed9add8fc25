"""What a cloud's metadata service can be asked."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from gpufleet.node_agent.notices import Notice

METADATA: str = "http://169.254.169.254"
"""The same address in all three clouds."""


class Metadata(Protocol):
    """The metadata service of one cloud."""

    def notices(self, now: datetime) -> tuple[Notice, ...]:
        """What is announced now; raises httpx.HTTPError when the service does not answer."""
        ...


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
