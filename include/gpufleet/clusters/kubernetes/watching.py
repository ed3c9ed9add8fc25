"""Keeps a few facts of every object of one kind: list, then watch from there, for as long as the process lives.

What a watch does (kubernetes.io, "Efficient detection of changes", and seen on 1.36): it ends without a word in the
middle of a burst, so it is resumed from the last version; a version that is too old is told as HTTP 410 or as an
ERROR line with code 410, so everything is listed again; bookmarks move the version on while nothing happens.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

import structlog

from gpufleet.clusters.kubernetes.answers import Expired, error_in
from gpufleet.clusters.kubernetes.api import Api, Ask
from gpufleet.errors import GpufleetError, NotFound, Temporary

F = TypeVar("F")
Raw = Mapping[str, Any]

log = structlog.get_logger()

PAGE: Final = 500
"""Objects of one list answer: their JSON is in memory at once, what is kept of them is not."""
TURN: Final = 25
"""Seconds one watch lasts. Each new one proves that the server still hears us, long before its word grows stale."""
SILENCE: Final = 40.0
SLOWEST: Final = 5.0
"""Seconds between two tries, at most."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[F]):
    """What is remembered of one object."""

    version: int
    fact: F


class Reflector(Generic[F]):
    """All objects behind `path` and `query`, each as what `reduce` keeps of it; None keeps nothing.

    `follow` says what is kept of an object after an earlier look (old, new); without it the new one is.
    `begin` starts it, and again in a forked child; all other methods may be called from any thread.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        query: Mapping[str, str],
        reduce: Callable[[Raw], F | None],
        follow: Callable[[F, F], F] = lambda _, new: new,
    ) -> None:
        self._api, self._path, self._query, self._reduce, self._follow = api, path, dict(query), reduce, follow
        self._kept: dict[str, Kept[F]] = {}
        self._gone: set[str] = set()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._version = ""
        self._heard: float | None = None
        self._trouble: GpufleetError | None = None
        self._task: Future[None] | None = None
        self.relists = 0

    def begin(self) -> None:
        if self._task is None or self._task.done():
            self._version, self._heard = "", None
            self._task = self._api.begin(self._run())

    def facts(self) -> list[F]:
        with self._lock:
            return [kept.fact for kept in self._kept.values()]

    def age(self) -> float:
        """Seconds since the server last showed that this view is up to date; infinite before the first list."""
        with self._lock:
            return float("inf") if self._heard is None else time.monotonic() - self._heard

    def wait(self, patience: float) -> None:
        """Until everything was listed once. Raises Temporary with the reason after `patience` seconds."""
        with self._changed:
            if self._changed.wait_for(lambda: self._heard is not None, patience):
                return
            raise Temporary(str(self._trouble or f"The cluster {self._api.name} has not told {self._path} yet."))

    def note(self, raw: Raw) -> None:
        """An object as an answer to our own write shows it: it need not be waited for."""
        self._put(raw)

    def forget(self, uid: str) -> None:
        """An object we removed, before the watch tells."""
        with self._changed:
            if self._kept.pop(uid, None) is not None:
                self._gone.add(uid)

    async def _run(self) -> None:
        wait = 0.05
        while True:
            try:
                if not self._version:
                    await self._list()
                began = time.monotonic()
                await self._watch()
                wait = 0.05
                if time.monotonic() - began < 1:  # a server that ends every watch at once is not run into the ground
                    await asyncio.sleep(wait)
            except Expired:
                self._version = ""
                continue
            except (CancelledError, asyncio.CancelledError):
                raise
            except Exception as e:  # an object nobody foresaw must not end the watch for good
                self._note_trouble(e)
                wait = min(SLOWEST, wait * 2)
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))

    def _note_trouble(self, error: Exception) -> None:
        if isinstance(error, NotFound):
            self._api_lacks_it()
        elif not isinstance(error, GpufleetError):
            log.exception("watch broke", cluster=self._api.name, path=self._path)
            self._version = ""
        with self._lock:
            self._trouble = error if isinstance(error, GpufleetError) else Temporary(f"The watch broke: {error!r}.")

    def _api_lacks_it(self) -> None:
        """A kind that is not served has no objects: old servers know no ResourceSlices."""
        with self._changed:
            self._kept, self._version, self._heard = {}, "", time.monotonic()
            self._changed.notify_all()

    async def _list(self) -> None:
        found: dict[str, Kept[F]] = {}
        query, token = {**self._query, "limit": str(PAGE)}, ""
        while True:
            page = await self._api.asked(Ask("GET", self._url({**query, **({"continue": token} if token else {})})))
            for raw in page.get("items") or ():
                self._collect(raw, found)
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        self._replace(found, page["metadata"]["resourceVersion"])

    def _collect(self, raw: Raw, found: dict[str, Kept[F]]) -> None:
        fact = self._reduce(raw)
        if fact is not None:
            found[raw["metadata"]["uid"]] = Kept(_version(raw), fact)

    def _replace(self, found: dict[str, Kept[F]], version: str) -> None:
        with self._changed:
            newest = int(version) if version.isdecimal() else 0
            for uid, kept in self._kept.items():
                if kept.version > max(newest, found[uid].version if uid in found else 0):
                    found[uid] = kept  # we wrote it after the list was made
                elif uid in found:
                    found[uid] = Kept(found[uid].version, self._follow(kept.fact, found[uid].fact))
            self._gone &= found.keys()
            self._kept = {uid: kept for uid, kept in found.items() if uid not in self._gone}
            self._version, self._heard, self._trouble = version, time.monotonic(), None
            self.relists += 1
            self._changed.notify_all()

    async def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(TURN),
        }
        async for line in self._api.lines(self._url(query), silence=SILENCE):
            with self._lock:
                self._heard, self._trouble = time.monotonic(), None
            if line:
                self._take(json.loads(line))

    def _take(self, event: Raw) -> None:
        raw = event["object"]
        match event["type"]:
            case "ERROR":
                raise error_in(self._api.name, raw)
            case "DELETED":
                with self._lock:
                    self._kept.pop(raw["metadata"]["uid"], None)
                    self._gone.discard(raw["metadata"]["uid"])
            case "ADDED" | "MODIFIED":
                self._put(raw)
        self._version = raw["metadata"]["resourceVersion"]

    def _put(self, raw: Raw) -> None:
        uid, version, fact = raw["metadata"]["uid"], _version(raw), self._reduce(raw)
        with self._lock:
            old = self._kept.get(uid)
            if uid in self._gone or (old is not None and old.version > version):
                return
            if fact is None:
                self._kept.pop(uid, None)
            else:
                self._kept[uid] = Kept(version, fact if old is None else self._follow(old.fact, fact))

    def _url(self, query: Mapping[str, str]) -> str:
        return f"{self._path}?{urlencode(query)}"


def _version(raw: Raw) -> int:
    """Versions grow and may be compared as numbers (Kubernetes 1.35 on; etcd's revisions always were)."""
    text = str(raw["metadata"]["resourceVersion"])
    return int(text) if text.isdecimal() else 0
