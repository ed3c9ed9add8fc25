"""What Azure's codes mean to us: of an answer, and of a scale set that failed."""

from __future__ import annotations

from typing import Final

from gpufleet.clouds.base import BadRequest, NoAccess, NotAnswered, QuotaReached, Throttled
from gpufleet.errors import GpufleetError, NoCapacity, NotFound

NONE_LEFT: Final = (
    "AllocationFailed",
    "ZonalAllocationFailed",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "SkuNotAvailable",
    "SkuNotAvailableInZone",
    "CapacityReservationGroupFull",
    "InsufficientCapacity",
    "SpotPriceTooLow",
)
NO_MORE_FOR_US: Final = ("QuotaExceeded", "ResourceQuotaExceeded", "SubscriptionQuotaExceeded")
TOO_MANY_REQUESTS: Final = (
    "TooManyRequests",
    "OperationNotAllowedByThrottling",
    "SubscriptionRequestsThrottled",
    "RetryableError",
    "AnotherOperationInProgress",
    "Conflict",
)
NOT_LET_IN: Final = (
    "AuthorizationFailed",
    "AuthenticationFailed",
    "InvalidAuthenticationToken",
    "ExpiredAuthenticationToken",
    "LinkedAuthorizationFailed",
)
ABSENT: Final = ("ResourceNotFound", "NotFound", "ResourceGroupNotFound")
UNWELL: Final = (
    "InternalServerError",
    "InternalExecutionError",
    "ServiceUnavailable",
    "ServerTimeout",
    "GatewayTimeout",
)

_MEANINGS: Final[tuple[tuple[tuple[str, ...], type[GpufleetError], str], ...]] = (
    (NONE_LEFT, NoCapacity, "Cloud {cloud} has none: {said}."),
    (NO_MORE_FOR_US, QuotaReached, "Cloud {cloud} gives us no more: {said}. Ask for a higher quota, or use less."),
    (TOO_MANY_REQUESTS, Throttled, "Cloud {cloud} is asked too often: {said}."),
    (NOT_LET_IN, NoAccess, "Cloud {cloud} does not let us: {said}; mend the credentials or the role."),
    (ABSENT, NotFound, "Cloud {cloud} does not know it: {said}."),
    (UNWELL, NotAnswered, "Cloud {cloud} is unwell: {said}."),
)
_STATUS: Final = {401: "AuthenticationFailed", 403: "AuthorizationFailed", 404: "NotFound", 429: "TooManyRequests"}


def error_of(cloud: str, code: str, message: str, status: int = 400) -> GpufleetError:
    """The error that a code stands for. Azure says `OperationNotAllowed` of quotas too; its sentence tells which."""
    said = f"{code}: {' '.join(message.split()).rstrip('.')}"
    if code == "OperationNotAllowed" and "quota" in message.lower():
        code = "QuotaExceeded"
    for word in (code, _STATUS.get(status, "")):
        for codes, meant, sentence in _MEANINGS:
            if word in codes:
                return meant(sentence.format(cloud=cloud, said=said))
    if status >= 500:
        return NotAnswered(f"Cloud {cloud} is unwell: {said}.")
    return BadRequest(f"Cloud {cloud} cannot accept it: {said}.")


def translated(cloud: str, error: Exception) -> GpufleetError | None:
    """An exception of the SDK as ours; None for what is neither an answer nor silence."""
    from azure.core import exceptions as azure

    if isinstance(error, azure.ClientAuthenticationError) and error.status_code is None:
        return NoAccess(f"Cloud {cloud} has no credentials: name an Airflow connection or give the host an identity.")
    if isinstance(error, azure.HttpResponseError) and error.status_code:
        code = error.error.code if error.error is not None and error.error.code else str(error.status_code)
        told = error.error.message if error.error is not None and error.error.message else error.reason
        return error_of(cloud, code, str(told or ""), int(error.status_code))
    if isinstance(error, azure.AzureError):
        return NotAnswered(f"Cloud {cloud} does not answer: {type(error).__name__}.")
    return None
