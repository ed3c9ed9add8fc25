"""Names that both sides know: label keys, the finalizer, the gate; and legal names for whatever a job is called."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from gpufleet.clusters.base import SCHEDULER as SCHEDULER

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON has it."""

FLEET: Final = "gpufleet.io/fleet"
JOB: Final = "gpufleet.io/job"
ATTEMPT: Final = "gpufleet.io/attempt"
RANK: Final = "gpufleet.io/rank"
TEAM: Final = "gpufleet.io/team"

SAVE_REQUEST: Final = "gpufleet.io/save-request"
"""Annotation of a pod: the number of the newest request to save. Absent until there is one."""
STOP: Final = "gpufleet.io/stop"
"""Annotation of a pod: why we end it, written before it is deleted."""
HOSTFILE: Final = "gpufleet.io/hostfile"
"""Annotation of rank 0: the hosts of the gang with their slots, as mpirun reads them."""
JOB_ID: Final = "gpufleet.io/job-id"
"""Annotation: the job's id where it is not legal as a label."""

OBSERVED: Final = "gpufleet.io/observed"
"""Finalizer: an ended pod stays until its end was seen."""
LET_GO: Final = (OBSERVED, "kueue.x-k8s.io/managed")
"""Finalizers taken off a pod of ours that is forgotten. Kueue keeps its own on while it still counts the pod."""
GANG_GATE: Final = "gpufleet.io/gang"
MAIN: Final = "main"
"""The container in which the job's own command runs."""
FIELD_MANAGER: Final = "gpufleet"

LABEL_LENGTH: Final = 63
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def digest(text: str, length: int = 8) -> str:
    """So many hexadecimal digits that stand for the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def dns_label(text: str) -> str:
    """The text where it is a DNS label (RFC 1123), else the nearest one, told apart by a digest of the text."""
    if _DNS_LABEL.fullmatch(text):
        return text
    mark = digest(text)
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return f"{words[: LABEL_LENGTH - len(mark) - 1].rstrip('-') or 'x'}-{mark}"


def service_name(text: str) -> str:
    """A DNS label that starts with a letter, as the name of a Service must (RFC 1035)."""
    name = dns_label(text)
    return name if name[0].isalpha() else dns_label(f"g-{name}")


def group_name(job: str, attempt: int) -> str:
    """Of the pods of one attempt together: their Service, and their group where another scheduler places them."""
    return service_name(f"{job}-{attempt}")


def label_value(text: str) -> str:
    """The text where it is legal as the value of a label, else a legal stand-in."""
    return text if _LABEL_VALUE.fullmatch(text) else dns_label(text)


def labels(fleet: str, *, team: str, job: str, attempt: int) -> dict[str, str]:
    """What every object of one attempt carries."""
    return {FLEET: label_value(fleet), TEAM: label_value(team), JOB: label_value(job), ATTEMPT: str(attempt)}


def verbatim(text: str) -> str:
    """So written that the kubelet hands the text on as it is: it replaces `$(NAME)` and halves `$$` in what it starts."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text
