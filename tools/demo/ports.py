"""Free loopback ports; one that is in use is named, and the next is tried."""

from __future__ import annotations

import socket


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose(first: int, name: str, tell: object = print, tries: int = 50) -> int:
    """The first free port from `first` on; says which ones were taken."""
    for port in range(first, first + tries):
        if is_free(port):
            return port
        if callable(tell):
            tell(f"port {port} is in use, trying {port + 1} for {name}")
    raise SystemExit(f"no free port for {name} from {first} to {first + tries - 1}")
