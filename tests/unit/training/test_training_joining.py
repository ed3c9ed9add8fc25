"""Who is let into the group of ranks, and what travels between them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from gpufleet.training import Wish
from gpufleet.training.examples.group import Group, PeerGone
from gpufleet.training.examples.joining import Seat, join, read_seat


def stay() -> None:
    """Nobody asks to leave."""


@pytest.fixture
def seat() -> Seat:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return Seat(0, 2, "127.0.0.1", port, b"token", "job-a/1")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def joined(pool: ThreadPoolExecutor, seat: Seat, seconds: float = 10) -> Future[Group]:
    return pool.submit(join, seat, seconds=seconds, leave=stay)


def connect(seat: Seat) -> socket.socket:
    """As soon as rank 0 listens."""
    for _ in range(2000):
        try:
            return socket.create_connection((seat.address, seat.port), timeout=5)
        except ConnectionRefusedError:
            threading.Event().wait(0.005)
    pytest.fail("rank 0 never listened")


def test_the_sum_is_taken_in_rank_order_and_the_largest_wish_wins(pool: ThreadPoolExecutor, seat: Seat) -> None:
    seat = replace(seat, world_size=3)
    groups = [joined(pool, replace(seat, rank=rank)) for rank in range(3)]
    # 1 + 1e16 - 1e16 is 0 in this order and 1 in another.
    parts, wishes = (1.0, 1e16, -1e16), (Wish.NOTHING, Wish.STOP, Wish.SAVE)
    ranks = [group.result(10) for group in groups]
    answers = [
        pool.submit(group.total, np.array([part]), wish) for group, part, wish in zip(ranks, parts, wishes, strict=True)
    ]
    assert [(float(total[0]), wish) for total, wish in (answer.result(10) for answer in answers)] == [
        (0.0, Wish.STOP)
    ] * 3
    for group in ranks:
        group.close()


STRANGERS = {
    "another token": {"token": b"guessed"},
    "no token": {"token": b""},
    "another attempt": {"attempt": "job-a/2"},
    "another number of ranks": {"world_size": 3},
    "a rank that there is not": {"rank": 7},
}


@pytest.mark.parametrize("difference", STRANGERS.values(), ids=STRANGERS)
def test_a_process_that_is_not_one_of_ours_stays_outside(
    pool: ThreadPoolExecutor, seat: Seat, difference: dict[str, object]
) -> None:
    leader = joined(pool, seat)
    stranger = joined(pool, replace(seat, **{"rank": 1, **difference}), seconds=0.2)
    with pytest.raises(PeerGone, match=r"rank 0 at .* did not let us in"):
        stranger.result(10)
    follower = joined(pool, replace(seat, rank=1))
    follower.result(10).close()
    leader.result(10).close()


def test_clients_that_are_silent_or_babble_do_not_keep_the_ranks_apart(
    pool: ThreadPoolExecutor, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpufleet.training.examples.joining._HANDSHAKE_SECONDS", 0.3)
    leader = joined(pool, seat)
    with connect(seat), connect(seat) as babbling:
        babbling.sendall(b"GET / HTTP/1.0\r\n\r\n" * 3000)
        follower = joined(pool, replace(seat, rank=1))
        follower.result(10).close()
        leader.result(10).close()


def test_a_listener_that_is_not_our_rank_0_gets_nothing(pool: ThreadPoolExecutor, seat: Seat) -> None:
    with socket.create_server((seat.address, seat.port)) as fake:
        follower = joined(pool, replace(seat, rank=1), seconds=0)
        connection, _ = fake.accept()
        with connection:
            connection.sendall(b"n" * 16)
            connection.recv(4096)
            connection.sendall(b"p" * 32)
            with pytest.raises(PeerGone, match="does not know GPUFLEET_RENDEZVOUS_TOKEN"):
                follower.result(10)


def test_the_end_of_a_peer_is_noticed_and_named(pool: ThreadPoolExecutor, seat: Seat) -> None:
    leader, follower = joined(pool, seat), joined(pool, replace(seat, rank=1))
    assert leader.result(10).alive(1)
    follower.result(10).close()
    with pytest.raises(PeerGone, match="rank 1 is gone"):
        leader.result(10).total(np.zeros(1), Wish.NOTHING)
    assert not leader.result(10).alive(1)
    leader.result(10).close()


def test_ranks_without_a_port_are_told_what_is_missing() -> None:
    with pytest.raises(SystemExit, match="MASTER_PORT is not set"):
        read_seat({"WORLD_SIZE": "2"})
