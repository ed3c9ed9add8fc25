"""What Compute Engine's codes mean to us: of an answer, and of an operation that ended in an error."""

from __future__ import annotations

from typing import Any, Final

from gpufleet.clouds.base import BadRequest, NoAccess, NotAnswered, QuotaReached, Throttled
from gpufleet.errors import GpufleetError, NoCapacity, NotFound, Refused


class Exists(Refused):
    """Something of that name is there already: look at it, then decide."""


NONE_LEFT: Final = (
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "REGION_RESOURCE_POOL_EXHAUSTED",
    "STOCKOUT",
    "RESOURCE_POOL_EXHAUSTED",
    "UNSUPPORTED_OPERATION",  # said of a machine type that the zone does not have
)
NO_MORE_FOR_US: Final = ("QUOTA_EXCEEDED", "QUOTAEXCEEDED", "LIMIT_EXCEEDED", "GPUS_ALL_REGIONS_EXCEEDED")
TOO_MANY_REQUESTS: Final = (
    "RATE_LIMIT_EXCEEDED",
    "RATELIMITEXCEEDED",
    "USERRATELIMITEXCEEDED",
    "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED",
    "RESOURCE_OPERATION_RATE_EXCEEDED",
)
NOT_LET_IN: Final = ("PERMISSIONS_ERROR", "FORBIDDEN", "REQUIRED", "AUTHERROR", "ACCESSNOTCONFIGURED")
UNWELL: Final = ("INTERNAL_ERROR", "BACKENDERROR", "INTERNALERROR", "SERVICE_UNAVAILABLE")
ABSENT: Final = ("RESOURCE_NOT_FOUND", "NOTFOUND")
THERE: Final = ("RESOURCE_ALREADY_EXISTS", "ALREADYEXISTS")

_MEANINGS: Final[tuple[tuple[tuple[str, ...], type[GpufleetError], str], ...]] = (
    (NONE_LEFT, NoCapacity, "Cloud {cloud} has none: {said}."),
    (TOO_MANY_REQUESTS, Throttled, "Cloud {cloud} is asked too often: {said}."),
    (NO_MORE_FOR_US, QuotaReached, "Cloud {cloud} gives us no more: {said}. Ask for a higher quota, or use less."),
    (NOT_LET_IN, NoAccess, "Cloud {cloud} does not let us: {said}; mend the credentials or the role."),
    (UNWELL, NotAnswered, "Cloud {cloud} is unwell: {said}."),
    (ABSENT, NotFound, "Cloud {cloud} does not know it: {said}."),
    (THERE, Exists, "Cloud {cloud} has it already: {said}."),
)
_STATUS: Final = {401: "REQUIRED", 403: "FORBIDDEN", 404: "NOTFOUND", 409: "ALREADYEXISTS", 429: "RATELIMITEXCEEDED"}


def error_of(cloud: str, code: str, message: str, status: int = 400) -> GpufleetError:
    """The error that a code stands for. Google writes the same reason as `quotaExceeded` and as `QUOTA_EXCEEDED`."""
    said = f"{code}: {' '.join(message.split()).rstrip('.')}"
    for word in (code.upper(), _STATUS.get(status, "")):
        for codes, meant, sentence in _MEANINGS:
            if word in codes:
                return meant(sentence.format(cloud=cloud, said=said))
    if status >= 500:
        return NotAnswered(f"Cloud {cloud} is unwell: {said}.")
    return BadRequest(f"Cloud {cloud} cannot accept it: {said}.")


def translated(cloud: str, error: Exception) -> GpufleetError | None:
    """An exception of the SDK as ours; None for what is neither an answer nor silence."""
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    if isinstance(error, GoogleAPICallError):
        told = [one for one in error.errors if isinstance(one, dict)]
        code = str(told[0].get("reason", "")) if told else ""
        return error_of(cloud, code or str(error.code), str(error.message), int(error.code or 500))
    if isinstance(error, GoogleAuthError):
        return NoAccess(f"Cloud {cloud} has no credentials: {type(error).__name__}; name an Airflow connection.")
    if isinstance(error, RequestException | RetryError | ConnectionError | TimeoutError):
        return NotAnswered(f"Cloud {cloud} does not answer: {type(error).__name__}.")
    return None


def operation_error(cloud: str, operation: Any) -> GpufleetError | None:
    """What an operation ended with, the most telling code first; None for a good end."""
    found = [error_of(cloud, one.code, one.message) for one in operation.error.errors]
    if not found and operation.http_error_status_code:
        status = int(operation.http_error_status_code)
        found = [error_of(cloud, str(status), operation.http_error_message, status)]
    first = (QuotaReached, NoCapacity, Throttled, NoAccess)
    return min(found, key=lambda e: first.index(type(e)) if type(e) in first else len(first), default=None)
