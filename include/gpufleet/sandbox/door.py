"""The file by which clients find a running sandbox, and the words in which it tells its errors."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpufleet.errors import Forbidden, GpufleetError, Invalid, NoCapacity, NotFound, Permanent, Refused, Temporary

DOOR_FILE: Final = "sandbox.json"

ERRORS: Final[dict[str, tuple[type[GpufleetError], int]]] = {
    "refused": (Refused, 409),
    "no-capacity": (NoCapacity, 409),
    "not-found": (NotFound, 404),
    "invalid": (Invalid, 422),
    "forbidden": (Forbidden, 401),
    "temporary": (Temporary, 503),
    "permanent": (Permanent, 422),
}
"""Kind on the wire -> error and HTTP status. Special kinds before the general ones they belong to."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where a sandbox listens, and the token that opens it."""

    url: str
    token: str
    pid: int


def write_door(home: Path, door: Door) -> None:
    """Whole or not at all, and for this user's eyes only."""
    draft = home / f".{DOOR_FILE}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(door), file)
    draft.replace(home / DOOR_FILE)


def read_door(home: Path) -> Door:
    """Raises Temporary when no sandbox has its door there."""
    path = home / DOOR_FILE
    try:
        return Door(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        raise Temporary(
            f"No sandbox answers in {home}; start one with `python -m gpufleet.sandbox --home {home} --world FILE`."
        ) from None


def remove_door(home: Path, pid: int) -> None:
    """Only one's own: a successor may have written another meanwhile."""
    try:
        mine = read_door(home).pid == pid
    except Temporary:
        return
    if mine:
        (home / DOOR_FILE).unlink(missing_ok=True)


def kind_of(error: GpufleetError) -> tuple[str, int]:
    """The word and HTTP status of an error; the most special that fits."""
    for kind, (found, status) in ERRORS.items():
        if isinstance(error, found):
            return kind, status
    return "permanent", 500


def error_of(kind: str, message: str) -> GpufleetError:
    found = ERRORS.get(kind)
    return found[0](message) if found else Permanent(message)
