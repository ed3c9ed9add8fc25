"""What the sandbox tells its operator: one JSON object a line on stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from datetime import UTC, datetime


def say(event: str, **fields: object) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"at": at, "event": event, **fields}, default=str)
    with contextlib.suppress(OSError):  # whoever read stderr may have gone; the world goes on
        print(line, file=sys.stderr, flush=True)
