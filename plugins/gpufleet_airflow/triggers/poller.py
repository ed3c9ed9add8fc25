"""One poller per triggerer process: one small query for all waiting jobs, in its own threads.

The default thread pool of asyncio is shared with everything else in the triggerer and small; ours is not shared.
The poller ends when nobody waits and starts again with the next trigger.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

EVERY: Final = 0.5
OVER: Final = ("succeeded", "failed", "cancelled")


class Poller:
    """Waits for many jobs at once on one event loop."""

    def __init__(self, states: Callable[[list[str]], dict[str, str]], *, every: float = EVERY) -> None:
        self._states, self._every = states, every
        self._waiting: dict[str, set[asyncio.Future[str]]] = defaultdict(set)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="gpufleet-poller")
        self._task: asyncio.Task[None] | None = None

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def wait(self, job: str) -> str:
        """The state in which the job ended."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[job].add(future)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._poll())
        try:
            return await future
        finally:
            self._waiting[job].discard(future)
            if not self._waiting[job]:
                del self._waiting[job]

    async def _poll(self) -> None:
        while self._waiting:
            ids = sorted(self._waiting)
            try:
                states = await self.in_thread(partial(self._states, ids))
            except Exception as e:
                log.warning("gpufleet's database did not answer, asking again: %s", e)
                states = {}
            self._tell(states)
            await asyncio.sleep(self._every)

    def _tell(self, states: dict[str, str]) -> None:
        for job, futures in list(self._waiting.items()):
            if states.get(job) in OVER:
                for future in futures:
                    if not future.done():
                        future.set_result(states[job])


_pollers: dict[Any, Poller] = {}


def poller() -> Poller:
    """The poller of the running event loop, made on first use; the way in is made in a thread, it reads files."""
    loop = asyncio.get_running_loop()
    if loop not in _pollers:
        _pollers[loop] = Poller(_read_states)
    return _pollers[loop]


def _read_states(ids: list[str]) -> dict[str, str]:
    from gpufleet_airflow.door import door

    return door().states(ids)
