"""One client for one cluster's API: sync for callers, asyncio inside, many requests at once.

Bodies are bytes that were encoded once; answers are plain JSON. Trouble that passes (429, 5xx, no answer) is tried
again for a while and then Temporary. A write without an answer may have been done: every write here may be repeated.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpufleet.clusters.kubernetes.access import Access
from gpufleet.clusters.kubernetes.answers import Expired, error_of
from gpufleet.errors import GpufleetError, Invalid, Temporary

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
Json = dict[str, Any]

CONNECTIONS: Final = 64
"""Well below what an API server queues for one ordinary user before it says 429."""
TIMEOUT: Final = 10.0
"""Seconds for one request."""
PATIENCE: Final = 10.0
"""Seconds after which a request is not tried again."""
LONGEST_WAIT: Final = 5.0

MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
JSON: Final = "application/json"
ONLY_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""What of an object that we wrote ourselves is news: its uid and version. The rest costs the server and us time."""

RETRIED: Final = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `path` has its query already."""

    method: str
    path: str
    body: bytes = b""
    kind: str = JSON
    text: bool = False
    """Whether the answer is text, not JSON: logs."""
    accept: str = JSON


Answer = Json | GpufleetError


class Api:
    """Opens its loop and its connections when first used, anew in a forked child. `close` is safe to repeat."""

    def __init__(
        self, name: str, access: Callable[[], Access], *, patience: float = PATIENCE, timeout: float = TIMEOUT
    ) -> None:
        self.name = name
        self.patience, self.timeout = patience, timeout
        self.told_at: datetime | None = None
        """The server's clock, to the second, in its last answer."""
        self._make_access = access
        self._opened: _Loop | None = None
        self._lock = threading.Lock()

    def ask(self, ask: Ask, *, patience: float | None = None) -> Json:
        """Raises the error an answer stands for (see `answers`), Temporary when there was none."""
        return self.run(self.asked(ask, patience))

    def all(self, asks: Iterable[Ask], *, patience: float | None = None) -> list[Answer]:
        """Every answer or error, in order; at most `CONNECTIONS` at a time."""
        wanted = list(asks)
        return self.run(self._all(wanted, patience)) if wanted else []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in the loop's thread and wait."""
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop().loop)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened.pid == os.getpid():
            opened.close()

    async def _all(self, asks: list[Ask], patience: float | None) -> list[Answer]:
        return list(await asyncio.gather(*(self._answer(ask, patience) for ask in asks)))

    async def _answer(self, ask: Ask, patience: float | None) -> Answer:
        try:
            return await self.asked(ask, patience)
        except GpufleetError as e:
            return e

    async def asked(self, ask: Ask, patience: float | None = None) -> Json:
        """One request with its retries, the last of which begins within `patience` seconds."""
        until, tries = time.monotonic() + (self.patience if patience is None else patience), 0
        while True:
            try:
                return await self._once(ask)
            except Temporary as e:
                tries += 1
                wait = min(LONGEST_WAIT, max(e.retry_after, 0.1 * 2**tries * random.uniform(0.5, 1.0)))
                if isinstance(e, Expired) or time.monotonic() + wait > until:
                    raise
            await asyncio.sleep(wait)

    async def _once(self, ask: Ask) -> Json:
        async with self._loop().gate, self._open(ask) as answer:
            raw = await answer.read()
            if answer.status < 400:
                return {"text": raw.decode(errors="replace")} if ask.text else _object(raw, self.name)
            if answer.status == 401:
                self._loop().access.forget()
            raise error_of(self.name, answer.status, raw, answer.headers.get("Retry-After"))

    @contextlib.asynccontextmanager
    async def _open(self, ask: Ask, silence: float | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        opened = self._loop()
        try:
            headers = {"Content-Type": ask.kind, "Accept": "*/*" if ask.text else ask.accept}
            if token := await opened.access.token():
                headers["Authorization"] = token
            total = self.timeout if silence is None else None
            limit = aiohttp.ClientTimeout(total=total, sock_read=silence, connect=self.timeout)
            url = opened.access.server + ask.path
            session = await opened.session()
            async with session.request(
                ask.method, url, data=ask.body or None, headers=headers, timeout=limit
            ) as answer:
                self._hear(answer.headers)
                yield answer
        except TimeoutError:
            raise Temporary(f"The cluster {self.name} did not answer in time.", retry_after=0.2) from None
        except (aiohttp.ClientError, OSError) as e:
            raise Temporary(
                f"The cluster {self.name} does not answer: {e or type(e).__name__}.", retry_after=0.2
            ) from None

    async def lines(self, path: str, *, silence: float) -> AsyncIterator[bytes]:
        """The lines of a watch as they come; an end without a word is an end. `silence` seconds without any = Temporary."""
        async with self._open(Ask("GET", path), silence) as answer:
            if answer.status >= 400:
                raise error_of(self.name, answer.status, await answer.read(), answer.headers.get("Retry-After"))
            yield b""
            rest = b""
            async for chunk in answer.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line

    def _hear(self, headers: Mapping[str, str]) -> None:
        if told := headers.get("Date"):
            self.told_at = parsedate_to_datetime(told)

    def _loop(self) -> _Loop:
        opened = self._opened
        if opened is None or opened.pid != os.getpid():
            with self._lock:
                if self._opened is None or self._opened.pid != os.getpid():
                    self._opened = self._new_loop()
                opened = self._opened
        return opened

    def _new_loop(self) -> _Loop:
        try:
            access = self._make_access()
        except Invalid as e:  # one cluster's mistake must not stop the others
            raise Temporary(f"The cluster {self.name} cannot be reached: {e}") from None
        atexit.register(self.close)
        return _Loop(access)


class _Loop:
    """An event loop in a thread of its own, with one pool of connections."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.gate = asyncio.Semaphore(CONNECTIONS)
        self._session: aiohttp.ClientSession | None = None
        self._thread = threading.Thread(target=self.loop.run_forever, name="kubernetes", daemon=True)
        self._thread.start()

    async def session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            tls = self.access.tls if self.access.tls is not None else True
            # watches hold their connections for good, so they come on top
            connector = aiohttp.TCPConnector(limit=CONNECTIONS + 16, ssl=tls, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(5)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        if not self.loop.is_running():
            self.loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


def _object(raw: bytes, name: str) -> Json:
    try:
        found = json.loads(raw)
    except ValueError:
        raise Temporary(f"The cluster {name} answered something that is not JSON.") from None
    if not isinstance(found, dict):
        raise Temporary(f"The cluster {name} answered JSON that is no object.")
    return found
