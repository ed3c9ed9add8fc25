"""How the ranks of a job find each other: rank 0 listens where MASTER_ADDR and MASTER_PORT say, the others connect.

Each side proves that it knows GPUFLEET_RENDEZVOUS_TOKEN without sending it, and says which job, attempt and rank it is,
so that neither a stranger nor a process left over from an earlier attempt gets in.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gpufleet.training.clock import CLOCK, Patience
from gpufleet.training.examples.group import Alone, Follower, Group, Leader, Peer, PeerGone, take

_NONCE: Final = 16
_MAC: Final = 32
_HANDSHAKE_SECONDS: Final = 2.0
_ACCEPT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Seat:
    """Which rank this is, and where rank 0 listens."""

    rank: int
    world_size: int
    address: str
    port: int
    token: bytes
    attempt: str
    """Job and attempt, so that two attempts do not mix."""


def read_seat(environ: Mapping[str, str]) -> Seat:
    world_size = int(environ.get("WORLD_SIZE") or 1)
    if world_size > 1 and not environ.get("MASTER_PORT"):
        raise SystemExit("MASTER_PORT is not set: the ranks cannot find each other.")
    return Seat(
        rank=int(environ.get("RANK") or 0),
        world_size=world_size,
        address=environ.get("MASTER_ADDR") or "127.0.0.1",
        port=int(environ.get("MASTER_PORT") or 0),
        token=environ.get("GPUFLEET_RENDEZVOUS_TOKEN", "").encode(),
        attempt=f"{environ.get('GPUFLEET_JOB', '')}/{environ.get('GPUFLEET_ATTEMPT', '')}",
    )


def join(seat: Seat, *, seconds: float, leave: Callable[[], None]) -> Group:
    """Meet the other ranks within *seconds*, else PeerGone. *leave* is called while waiting and may end the process."""
    if seat.world_size == 1:
        return Alone()
    patience = Patience.of(seconds, CLOCK)
    return _lead(seat, patience, leave) if seat.rank == 0 else _follow(seat, patience, leave)


def _lead(seat: Seat, patience: Patience, leave: Callable[[], None]) -> Leader:
    missing, peers = set(range(1, seat.world_size)), list[Peer]()
    with _listen(seat, patience, leave) as listener:
        listener.settimeout(_ACCEPT_SECONDS)
        while missing:
            leave()
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if patience.is_over:
                    names = ", ".join(map(str, sorted(missing)))
                    raise PeerGone(f"rank {names} did not come") from None
                continue
            rank = _admit(seat, connection, missing)
            if rank is None:
                connection.close()
                continue
            missing.discard(rank)
            peers.append(Peer(rank, connection))
    return Leader(peers)


def _listen(seat: Seat, patience: Patience, leave: Callable[[], None]) -> socket.socket:
    """The port may still be held for a moment by the attempt before."""
    while True:
        leave()
        try:
            return socket.create_server((seat.address, seat.port), backlog=seat.world_size)
        except OSError as error:
            if not patience.again():
                raise PeerGone(f"cannot listen on {seat.address}:{seat.port} ({error})") from error


def _follow(seat: Seat, patience: Patience, leave: Callable[[], None]) -> Follower:
    while True:
        leave()
        try:
            connection = socket.create_connection((seat.address, seat.port), timeout=_HANDSHAKE_SECONDS)
            _introduce(seat, connection)
            return Follower(Peer(0, connection))
        except OSError as error:  # not listening yet, or still the attempt before
            if not patience.again():
                raise PeerGone(f"rank 0 at {seat.address}:{seat.port} did not let us in ({error})") from error


def _admit(seat: Seat, connection: socket.socket, missing: set[int]) -> int | None:
    """The rank that has proved to be one of ours, else None."""
    try:
        connection.settimeout(_HANDSHAKE_SECONDS)
        nonce = secrets.token_bytes(_NONCE)
        connection.sendall(nonce)
        length = int.from_bytes(take(connection, 2))
        hello = take(connection, length)
        if not hmac.compare_digest(take(connection, _MAC), _proof(seat, b"peer", nonce, hello)):
            return None
        said = json.loads(hello)
        if said["attempt"] != seat.attempt or said["world_size"] != seat.world_size or said["rank"] not in missing:
            return None
        connection.sendall(_proof(seat, b"lead", nonce, hello))
        return int(said["rank"])
    except (OSError, ValueError, KeyError, TypeError):  # a stranger, or one that left at once
        return None


def _introduce(seat: Seat, connection: socket.socket) -> None:
    """Raises OSError when the other side turns us away, or cannot prove that it is our rank 0."""
    try:
        nonce = take(connection, _NONCE)
        said = {"rank": seat.rank, "world_size": seat.world_size, "attempt": seat.attempt}
        hello = json.dumps({**said, "nonce": secrets.token_hex(_NONCE)}).encode()
        connection.sendall(len(hello).to_bytes(2) + hello + _proof(seat, b"peer", nonce, hello))
        if not hmac.compare_digest(take(connection, _MAC), _proof(seat, b"lead", nonce, hello)):
            raise ConnectionError("it does not know GPUFLEET_RENDEZVOUS_TOKEN")
    except OSError:
        connection.close()
        raise


def _proof(seat: Seat, role: bytes, nonce: bytes, hello: bytes) -> bytes:
    return hmac.digest(seat.token or b"none", role + nonce + hello, hashlib.sha256)
