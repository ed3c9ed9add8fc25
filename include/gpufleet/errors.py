"""The few kinds of error that cross a border.

Bad input (the caller must change something), trouble worth another try, and trouble that is not.
Every message is one sentence that names what is wrong and says what to do.
"""

from __future__ import annotations


class GpufleetError(Exception):
    """Root of everything raised on purpose. The message is fit to show to a person."""


class Invalid(GpufleetError):
    """The input is wrong: exit status 2, HTTP 422. Nothing was changed."""


class Forbidden(GpufleetError):
    """The asker may not do this: exit status 2, HTTP 403. Nothing was changed."""


class NotFound(GpufleetError):
    """What was named does not exist: exit status 2, HTTP 404."""


class Temporary(GpufleetError):
    """Worth trying again, not before `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnderWay(Temporary):
    """Begun, and somebody else is at it, who has a limit of his own: asked again for as long as it takes."""


class Permanent(GpufleetError):
    """Trying again cannot help."""


class NoCapacity(Temporary):
    """The cloud had none of what was asked; another offering may have some."""


class Refused(Permanent):
    """A world's referee said no: a device given twice, an illegal MIG placement, too much memory."""
