"""Adding up vectors over the ranks of a job, by TCP: every rank sends to rank 0, which adds in rank order and answers.

The order is what makes a run repeatable to the last bit. A wish travels with every vector and comes back as the
largest of all, so all ranks save, or stop, after the same step.
"""

from __future__ import annotations

import socket
import struct
from typing import Final, Protocol

import numpy as np

from gpufleet.training.examples.model import Vector
from gpufleet.training.watching import Wish

_FRAME: Final = struct.Struct("!BI")
_LONGEST: Final = 1 << 26
"""Bytes of a message; more is not one of ours."""


class PeerGone(Exception):
    """Another rank left or never came: this attempt cannot go on, a new one can."""


class Group(Protocol):
    """The ranks of a job, as one of them sees the others."""

    def total(self, vector: Vector, wish: Wish) -> tuple[Vector, Wish]:
        """The sum over all ranks, in rank order, and the largest wish. Raises PeerGone."""
        ...

    def alive(self, rank: int) -> bool:
        """Whether the process of *rank* is still connected, as far as this one can tell."""
        ...

    def close(self) -> None: ...


class Alone:
    """A group of one."""

    def total(self, vector: Vector, wish: Wish) -> tuple[Vector, Wish]:
        return vector, wish

    def alive(self, rank: int) -> bool:
        return True

    def close(self) -> None:
        """Nothing to close."""


class Peer:
    """A connection to another rank. Its end, however it comes about, is a PeerGone that names the rank."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank, self._connection = rank, connection
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A process that dies closes its socket; only these notice a machine that does.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def send(self, vector: Vector, wish: Wish) -> None:
        raw = vector.astype("<f8").tobytes()
        try:
            self._connection.sendall(_FRAME.pack(wish, len(raw)) + raw)
        except OSError as error:
            raise PeerGone(f"rank {self.rank} is gone ({error})") from error

    def receive(self) -> tuple[Vector, Wish]:
        wish, length = _FRAME.unpack(self._take(_FRAME.size))
        if length > _LONGEST:
            raise PeerGone(f"rank {self.rank} sent what is no vector")
        return np.frombuffer(self._take(length), "<f8").astype(np.float64), Wish(wish)

    def is_connected(self) -> bool:
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:  # nothing to read, so not the end either
            return True
        except OSError:
            return False

    def close(self) -> None:
        self._connection.close()

    def _take(self, count: int) -> bytes:
        try:
            return take(self._connection, count)
        except OSError as error:
            raise PeerGone(f"rank {self.rank} is gone ({error})") from error


class Leader:
    """Rank 0: collects, adds, answers."""

    def __init__(self, peers: list[Peer]) -> None:
        self._peers = sorted(peers, key=lambda peer: peer.rank)

    def total(self, vector: Vector, wish: Wish) -> tuple[Vector, Wish]:
        for peer in self._peers:
            part, wished = peer.receive()
            vector, wish = vector + part, max(wish, wished)
        for peer in self._peers:
            peer.send(vector, wish)
        return vector, wish

    def alive(self, rank: int) -> bool:
        return all(peer.is_connected() for peer in self._peers if peer.rank == rank)

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


class Follower:
    """Any other rank: sends its part and waits for the sum."""

    def __init__(self, leader: Peer) -> None:
        self._leader = leader

    def total(self, vector: Vector, wish: Wish) -> tuple[Vector, Wish]:
        self._leader.send(vector, wish)
        return self._leader.receive()

    def alive(self, rank: int) -> bool:
        return self._leader.is_connected()

    def close(self) -> None:
        self._leader.close()


def take(connection: socket.socket, count: int) -> bytes:
    """Exactly *count* bytes; raises ConnectionError at the end of the stream."""
    pieces: list[bytes] = []
    while count:
        piece = connection.recv(min(count, 1 << 20))
        if not piece:
            raise ConnectionError("it closed the connection")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
