"""Interruptions as EventBridge tells them through a queue: spot warnings two minutes ahead, rebalance hints perhaps earlier."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from gpufleet.clouds.asking import Asking
from gpufleet.clouds.aws.clients import Clients
from gpufleet.model.capacity import InterruptionNotice

log = structlog.get_logger()

SPOT: Final = "EC2 Spot Instance Interruption Warning"
REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
KINDS: Final = {SPOT: "spot", REBALANCE: "rebalance"}
WARNING: Final = timedelta(minutes=2)
BATCH: Final = 10
MOST_BATCHES: Final = 100
"""In one look; a burst of a thousand is read at once, more with the next look."""
HIDDEN_SECONDS: Final = 30
"""A message that was read and not confirmed by then comes again."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the queue; `notice` is None for what does not concern us."""

    receipt: str
    notice: InterruptionNotice | None


class Queue:
    """Reads, remembers what it handed out, and deletes that when it is written down."""

    def __init__(self, url: str, clients: Clients, asking: Asking, ours: Callable[[set[str]], set[str]]) -> None:
        self._url, self._clients, self._asking, self._ours = url, clients, asking, ours
        self._receipts: dict[str, set[str]] = {}

    def notices(self) -> tuple[InterruptionNotice, ...]:
        """Of our machines, spot warnings before hints: they have the least time. Everything else is deleted."""
        found: dict[str, InterruptionNotice] = {}
        for _ in range(MOST_BATCHES):
            messages = [_message(raw) for raw in self._receive()]
            if not messages:
                break
            ours = self._ours({m.notice.instance for m in messages if m.notice is not None})
            for message in messages:
                if message.notice is not None and message.notice.instance in ours:
                    found[message.notice.id] = message.notice
                    self._receipts.setdefault(message.notice.id, set()).add(message.receipt)
            self._delete([m.receipt for m in messages if m.notice is None or m.notice.instance not in ours])
        return tuple(sorted(found.values(), key=lambda n: (n.kind != "spot", n.deadline, n.id)))

    def heard(self, notices: Iterable[InterruptionNotice]) -> None:
        self._delete([receipt for notice in notices for receipt in sorted(self._receipts.pop(notice.id, ()))])

    def _receive(self) -> list[dict[str, Any]]:
        client = self._clients("sqs")
        said = self._asking.ask(
            lambda: client.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=0, VisibilityTimeout=HIDDEN_SECONDS
            )
        )
        return list(said.get("Messages", ()))

    def _delete(self, receipts: list[str]) -> None:
        client = self._clients("sqs")
        for start in range(0, len(receipts), BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": receipt}
                for number, receipt in enumerate(receipts[start : start + BATCH])
            ]
            self._asking.ask(lambda e=entries: client.delete_message_batch(QueueUrl=self._url, Entries=e))  # type: ignore[misc]


def _message(raw: dict[str, Any]) -> Message:
    return Message(raw["ReceiptHandle"], notice_of(raw.get("Body", "")))


def notice_of(body: str) -> InterruptionNotice | None:
    """The notice in an event of EventBridge; None for another event, or for what cannot be read."""
    try:
        event = json.loads(body)
        kind = KINDS.get(event.get("detail-type", "")) if event.get("source") == "aws.ec2" else None
        if kind is None:
            return None
        at = datetime.fromisoformat(event["time"].replace("Z", "+00:00"))
        instance, id = str(event["detail"]["instance-id"]), str(event["id"])
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("a message of the interruption queue cannot be read", message=body[:200])
        return None
    deadline = at + WARNING if kind == "spot" else at
    return InterruptionNotice(f"aws-{id}", instance, instance, at, deadline, kind)
