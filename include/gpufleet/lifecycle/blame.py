"""Whose fault a failed pod is: the job's, the node's, or the platform's. Only the job's own failures are counted."""

from __future__ import annotations

from typing import Final

PEER_LOST: Final = 75
"""EX_TEMPFAIL of sysexits.h: a rank that ends because another one is gone says so with this status."""

WORDS: Final = {
    "memory": "used more GPU memory than its place has",
    "host-memory": "used more host memory than it asked for",
    "start": "could not be started",
    "node-lost": "lost its node",
    "evicted": "was stopped from outside",
}


def root_cause(exits: tuple[tuple[int, int | None, str], ...]) -> tuple[str, bool]:
    """(why, is it the job's own failure) for failed pods given as (rank, exit code, the cluster's reason).

    Ranks that only followed another one (PEER_LOST) are not the cause, unless all of them say so.
    """
    if any(reason == "node-lost" for _, _, reason in exits):
        rank = next(r for r, _, reason in exits if reason == "node-lost")
        return f"rank {rank} lost its node", False
    causes = [e for e in exits if e[1] != PEER_LOST] or list(exits)
    rank, code, reason = causes[0]
    if code == PEER_LOST:
        return f"rank {rank} lost its peers", False
    if reason in WORDS:
        return f"rank {rank} {WORDS[reason]}", reason in ("memory", "host-memory", "start")
    return f"rank {rank} ended with exit status {code}", True
