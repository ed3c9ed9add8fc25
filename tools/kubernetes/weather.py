"""A proxy in front of an API server that misbehaves as told: refuses, loses answers, hangs, cuts watches, lies about time.

It speaks plain HTTP on loopback to the client under test, and TLS as the test's user to the real server.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml
from aiohttp import web

from gpufleet.clusters.kubernetes.access import access_from
from gpufleet.sandbox.environment import LOOPBACK

_NOT_PASSED: Final = {"transfer-encoding", "content-length", "connection", "content-encoding", "date", "host"}


@dataclass
class Trouble:
    """What happens to the next `times` requests whose `METHOD /path?query` matches."""

    when: re.Pattern[str]
    times: int
    status: int = 0
    """Answer with this, and do not ask the server."""
    retry_after: str = ""
    message: str = ""
    loses_answer: bool = False
    """Ask the server, then hang up without a word."""
    hangs: float = 0.0
    """Ask the server, then answer so many seconds later."""
    cuts_after: int = -1
    """Of a watch: hang up after so many events."""
    last_line: str = ""
    """Of a watch that is cut: said at its end."""
    happened: int = 0


@dataclass
class Weather:
    """Told by tests from any thread; `asked` is every request so far, in order, as `METHOD /path?query`."""

    skew: timedelta = timedelta(0)
    """How much later the server's clock seems to be."""
    url: str = ""
    asked: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    def make(self, when: str, times: int = 1, **what: Any) -> Trouble:
        """`Trouble` for requests that match the regular expression, e.g. `POST .*/pods`."""
        trouble = Trouble(re.compile(when), times, **what)
        self.troubles.append(trouble)
        return trouble

    def clear(self) -> None:
        self.troubles.clear()

    def count(self, when: str) -> int:
        """Requests so far that match."""
        return sum(1 for line in self.asked if re.match(when, line))

    def next_for(self, line: str) -> Trouble | None:
        for trouble in self.troubles:
            if trouble.happened < trouble.times and trouble.when.match(line):
                trouble.happened += 1
                return trouble
        return None

    def kubeconfig(self, path: Path) -> Path:
        """Written to lead through this proxy."""
        entry = {"name": "weather", "cluster": {"server": self.url}}
        context = {"name": "weather", "context": {"cluster": "weather", "user": ""}}
        path.write_text(yaml.safe_dump({"clusters": [entry], "contexts": [context], "current-context": "weather"}))
        return path


@contextmanager
def weather(kubeconfig: Path) -> Iterator[Weather]:
    """A proxy in a thread of its own, in front of the server of that kubeconfig."""
    found = Weather()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="weather", daemon=True)
    thread.start()
    proxy = _Proxy(found, kubeconfig)
    try:
        found.url = asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(10)
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


class _Proxy:
    def __init__(self, told: Weather, kubeconfig: Path) -> None:
        self._told = told
        self._access = access_from(str(kubeconfig))

    async def start(self) -> str:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._access.tls or True)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return f"http://{LOOPBACK}:{port}"

    async def stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:  # connections that we hung up on
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        line = f"{request.method} {request.path_qs}"
        self._told.asked.append(line)
        trouble = self._told.next_for(line)
        if trouble is not None and trouble.status:
            return self._refusal(trouble)
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_PASSED}
        url = self._access.server + request.path_qs
        try:
            async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
                if "watch=1" in request.query_string:
                    return await self._watched(request, answer, trouble)
                return await self._answered(request, answer, trouble)
        except aiohttp.ClientError:
            _hang_up(request)
            return web.Response()

    def _refusal(self, trouble: Trouble) -> web.Response:
        said = {
            "kind": "Status",
            "status": "Failure",
            "code": trouble.status,
            "message": trouble.message or "bad weather",
        }
        headers = {"Retry-After": trouble.retry_after} if trouble.retry_after else {}
        return web.Response(status=trouble.status, text=json.dumps(said), headers={**headers, **self._date()})

    async def _answered(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, trouble: Trouble | None
    ) -> web.Response:
        body = await answer.read()
        if trouble is not None and trouble.loses_answer:
            _hang_up(request)
        if trouble is not None and trouble.hangs:
            await asyncio.sleep(trouble.hangs)
        return web.Response(status=answer.status, body=body, headers={**_passed(answer), **self._date()})

    async def _watched(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, trouble: Trouble | None
    ) -> web.StreamResponse:
        stream = web.StreamResponse(status=answer.status, headers={**_passed(answer), **self._date()})
        await stream.prepare(request)
        seen = 0
        while line := await answer.content.readline():
            if trouble is not None and trouble.cuts_after == seen:
                break
            await stream.write(line)
            seen += 1
        if trouble is not None and trouble.last_line:
            await stream.write(trouble.last_line.encode() + b"\n")
        await stream.write_eof()
        return stream

    def _date(self) -> dict[str, str]:
        return {"Date": format_datetime(datetime.now(UTC) + self._told.skew, usegmt=True)}


def _passed(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {k: v for k, v in answer.headers.items() if k.lower() not in _NOT_PASSED}


def _hang_up(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
