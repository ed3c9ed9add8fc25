"""What can go wrong between a rank and its checkpoint store, in words for the person who reads the log."""

from __future__ import annotations

import sys
from collections.abc import Callable


class CheckpointError(RuntimeError):
    """The attempt cannot start from what the store holds; going on would lose or mix up work."""


class WorldSizeChanged(CheckpointError):
    """The base was saved by another number of ranks, so 'this rank's part' has no meaning."""


class SaveFailed(RuntimeError):
    """This save will not be complete. Training goes on and the next one is tried in its turn."""


def note(text: str) -> None:
    """One line for the log of the job."""
    print(f"gpufleet: {text}", file=sys.stderr, flush=True)


def in_words(error: Exception) -> str:
    """An error as one sentence; the type says what an SDK's bare message often does not."""
    text = str(error)
    return text if isinstance(error, SaveFailed) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def try_or_note(what: str, action: Callable[[], object]) -> bool:
    """Do what training can live without: when the store will not have it, say so and go on.

    Any Exception, for SDKs of stores raise types of their own.
    """
    try:
        action()
    except Exception as error:
        note(f"could not {what}: {in_words(error)}")
        return False
    return True
