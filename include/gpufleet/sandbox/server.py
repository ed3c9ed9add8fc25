"""The process: one per home, on loopback only, ready when its door file is written, and gone without a trace."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import Final

import uvicorn
from fastapi import FastAPI

from gpufleet.clock import SystemClock
from gpufleet.errors import Invalid
from gpufleet.sandbox import caretaker, events, gangs
from gpufleet.sandbox.api import build_app
from gpufleet.sandbox.book import Book
from gpufleet.sandbox.door import Door, remove_door, write_door
from gpufleet.sandbox.founding import found
from gpufleet.sandbox.runner import ShimRunner
from gpufleet.sandbox.site import Site
from gpufleet.sandbox.world import World

LOOK_EVERY: Final = 0.1
"""Seconds between two looks at the pods: short against everything a person or a scheduler waits for."""
STOP_GRACE: Final = timedelta(seconds=2)
"""What pods get when the sandbox takes them along."""
KEEP_ALIVE: Final = 75
"""Seconds an idle connection stays open: longer than clients keep theirs, so that none is closed under a request."""


def run(home: Path, world: World, *, address: str, stop_pods: bool) -> None:
    """Serve until SIGTERM or SIGINT. Raises Invalid for a home that is in use."""
    told_to_stop = _hear_signals()
    folder = home / "sandbox"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _only_one(folder), contextlib.closing(Book(folder / "state.db")) as book:
        site = Site(folder.resolve(), book, SystemClock(), ShimRunner(), world.reclaims)
        found(book, world, site.now())
        caretaker.resume(site)
        with _listening(address, book.facts.port) as listener:
            _serve(site, home, listener, told_to_stop)
        if stop_pods:
            _stop_pods(site)
    events.say("stopped", pods_stopped=stop_pods)


def _hear_signals() -> threading.Event:
    """uvicorn hears them while it serves and raises them again at its end: by then they are known, not deadly."""
    told_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_stop.set())
    return told_to_stop


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """The lock goes with the process, however that ends; pods do not inherit it."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Invalid(f"A sandbox runs on {folder.parent} already; stop it first, or use another --home.") from None
        yield


def _listening(address: str, earlier_port: int) -> socket:
    """On the port of last time when it is free, so that whoever remembers it finds us again."""
    listener = socket(AF_INET, SOCK_STREAM)
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        listener.bind((address, earlier_port))
    except OSError:
        listener.bind((address, 0))
    return listener


def _serve(site: Site, home: Path, listener: socket, told_to_stop: threading.Event) -> None:
    address, port = listener.getsockname()
    token = site.book.facts.token or secrets.token_urlsafe(32)
    site.book.set_facts(replace(site.book.facts, port=port, token=token))
    site.book.commit()
    door = Door(f"http://{address}:{port}", token, os.getpid())
    app = build_app(site, token)
    listener.listen(128)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=2, ws="none"
    )
    server = uvicorn.Server(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        server.should_exit = told_to_stop.is_set()  # while the world was being made
        with _open(site, home, door):
            yield

    app.router.lifespan_context = lifespan
    server.run(sockets=[listener])


@contextmanager
def _open(site: Site, home: Path, door: Door) -> Iterator[None]:
    """While the door is open the caretaker goes its rounds."""
    done = threading.Event()
    rounds = threading.Thread(target=_go_rounds, args=(site, done), name="caretaker", daemon=True)
    rounds.start()
    write_door(home, door)
    events.say("ready", url=door.url, pid=door.pid, home=str(home))
    try:
        yield
    finally:
        remove_door(home, door.pid)
        done.set()
        rounds.join()


def _go_rounds(site: Site, done: threading.Event) -> None:
    while not done.wait(LOOK_EVERY):
        try:
            caretaker.advance(site)
        except Exception as error:
            # A full disk, say: nothing was changed, and the next round tries the same again.
            events.say("round-failed", error=repr(error))


def _stop_pods(site: Site) -> None:
    """SIGTERM, SIGKILL after two seconds, and not back before the last process has ended."""
    with caretaker.turn(site):
        for gang in site.book.live_gangs():
            gangs.stop(site, gang.ask.job, gang.ask.attempt, STOP_GRACE)
    waiting = threading.Event()
    while site.book.live_gangs():
        caretaker.advance(site)
        waiting.wait(LOOK_EVERY / 5)
