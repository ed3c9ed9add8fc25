"""The one HTTP connection that both thin clients (`clusters.sandbox`, `clouds.sandbox`) use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import httpx

from gpufleet.errors import GpufleetError, Temporary
from gpufleet.sandbox.door import Door, error_of, read_door

TIMEOUT: Final = httpx.Timeout(5.0, connect=2.0)
"""Seconds. The slowest request is the launch of a gang of a hundred: a second, on a busy machine a few."""


class Connection:
    """Reads the door's file when first used, and again when nobody answers: a restarted sandbox may have moved.

    Trying twice is safe because every request may be repeated.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._door: Door | None = None
        self._http: httpx.Client | None = None
        self._pid = 0

    def get(self, path: str, **query: str | int) -> Any:
        return self._ask("GET", path, query=query)

    def post(self, path: str, body: bytes) -> Any:
        """`body` is JSON."""
        return self._ask("POST", path, body=body)

    def _ask(self, method: str, path: str, *, query: dict[str, str | int] | None = None, body: bytes = b"") -> Any:
        try:
            answer = self._try(method, path, query, body)
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                answer = self._try_anew(method, path, query, body)
        except httpx.TimeoutException:
            raise Temporary(f"The sandbox of {self._home} did not answer in time.") from None
        except httpx.TransportError:
            answer = self._last_try(method, path, query, body)
        if answer.is_success:
            return answer.json()
        raise _error(answer)

    def _last_try(self, method: str, path: str, query: dict[str, str | int] | None, body: bytes) -> httpx.Response:
        try:
            return self._try_anew(method, path, query, body)
        except httpx.TransportError as error:
            self._door = None
            raise Temporary(f"The sandbox of {self._home} does not answer: {error}.") from None

    def _try_anew(self, method: str, path: str, query: dict[str, str | int] | None, body: bytes) -> httpx.Response:
        self._door = None
        return self._try(method, path, query, body)

    def _try(self, method: str, path: str, query: dict[str, str | int] | None, body: bytes) -> httpx.Response:
        door = self._door = self._door or read_door(self._home)
        headers = {"Authorization": f"Bearer {door.token}", "Content-Type": "application/json"}
        return self._client().request(method, f"{door.url}{path}", params=query, content=body, headers=headers)

    def _client(self) -> httpx.Client:
        """One per process: connections must not be shared across a fork. Proxies are not asked about loopback."""
        if self._http is None or self._pid != os.getpid():
            self._http, self._pid = httpx.Client(timeout=TIMEOUT, trust_env=False, verify=False), os.getpid()
        return self._http


def _error(answer: httpx.Response) -> GpufleetError:
    try:
        told = answer.json()
        return error_of(str(told["error"]), str(told["message"]))
    except (ValueError, KeyError, TypeError):
        return Temporary(f"The sandbox answered {answer.status_code} without a reason.")
