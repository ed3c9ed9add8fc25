"""The portal on a loopback port, for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from gpufleet.model.tenancy import Principal
from gpufleet.portal.app import create_app
from gpufleet.services.fleet import Fleet
from tests.sandboxes import eventually


@contextmanager
def serving(fleet: Fleet, who: Callable[..., Principal]) -> Iterator[str]:
    """Its address, for the length of the block; `who` says who is asking."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(lambda: fleet, who), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=10)
