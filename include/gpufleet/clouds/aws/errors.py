"""What EC2's error codes mean to us. Its own words are kept: they are what a platform team searches for."""

from __future__ import annotations

from typing import Final

from gpufleet.clouds.base import BadRequest, NoAccess, NotAnswered, QuotaReached, Throttled
from gpufleet.errors import GpufleetError, NoCapacity, NotFound, Refused


class Ended(Refused):
    """A client token was used before, and what it bought has ended since."""


NONE_LEFT: Final = frozenset(
    {
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientCapacity",
        "InsufficientCapacityOnHost",
        "UnfulfillableCapacity",
        "ReservationCapacityExceeded",
        "CapacityReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "Unsupported",  # this type is not sold in this zone: another zone may have it
    }
)
NO_MORE_FOR_US: Final = frozenset(
    {
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "InstanceLimitExceeded",
        "SpotFleetRequestConfigLimitExceeded",
        "MaxSpotFleetRequestCountExceeded",
        "VolumeLimitExceeded",
        "AttachmentLimitExceeded",
        "NetworkInterfaceLimitExceeded",
        "CapacityReservationLimitExceeded",
        "InstanceCountExceededException",
    }
)
TOO_MANY_REQUESTS: Final = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "RequestThrottled",
        "SlowDown",
        "EC2ThrottledException",
        "OverLimit",
    }
)
NOT_LET_IN: Final = frozenset(
    {
        "AuthFailure",
        "UnauthorizedOperation",
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "OptInRequired",
        "PendingVerification",
        "Blocked",
    }
)
UNWELL: Final = frozenset({"InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable", "RequestTimeout"})


def error_of(cloud: str, code: str, message: str, status: int = 400) -> GpufleetError:
    """The error that an answer with this code stands for."""
    said = f"{code}: {message.strip().rstrip('.')}"
    for codes, meant, sentence in _MEANINGS:
        if code in codes:
            return meant(sentence.format(cloud=cloud, said=said))
    if code.endswith((".NotFound", "NotFoundException")):
        return NotFound(f"Cloud {cloud} does not know it: {said}.")
    if status >= 500:
        return NotAnswered(f"Cloud {cloud} is unwell: {said}.")
    return BadRequest(f"Cloud {cloud} cannot accept it: {said}.")


_MEANINGS: Final[tuple[tuple[frozenset[str], type[GpufleetError], str], ...]] = (
    (NONE_LEFT, NoCapacity, "Cloud {cloud} has none: {said}."),
    (NO_MORE_FOR_US, QuotaReached, "Cloud {cloud} gives us no more: {said}. Ask for a higher quota, or use less."),
    (TOO_MANY_REQUESTS, Throttled, "Cloud {cloud} is asked too often: {said}."),
    (NOT_LET_IN, NoAccess, "Cloud {cloud} does not let us: {said}; mend the credentials or the role."),
    (UNWELL, NotAnswered, "Cloud {cloud} is unwell: {said}."),
    (frozenset({"IdempotentInstanceTerminated"}), Ended, "Cloud {cloud} sold that before, and it has ended: {said}."),
)


def translated(cloud: str, error: Exception) -> GpufleetError | None:
    """An exception of botocore as ours; None for what is neither an answer nor silence."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, boto.ClientError):
        told, meta = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
        status = int(meta.get("HTTPStatusCode", 400))
        return error_of(cloud, str(told.get("Code", "Unknown")), str(told.get("Message", "")), status)
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        return NoAccess(f"Cloud {cloud} has no credentials: name an Airflow connection or give the host a role.")
    if isinstance(error, boto.ParamValidationError):
        return BadRequest(f"Cloud {cloud} cannot be asked so: {str(error).splitlines()[-1].strip()}.")
    if isinstance(error, boto.HTTPClientError | boto.ConnectionError | ResponseParserError):
        return NotAnswered(f"Cloud {cloud} does not answer: {type(error).__name__}.")
    if isinstance(error, boto.BotoCoreError):
        return BadRequest(f"Cloud {cloud} cannot be asked so: {error}.")
    return None
