"""Ends attempts, and forgets ended ones: told why, with their grace, their last lines kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.answers import Conflict
from gpufleet.clusters.kubernetes.api import Api, Ask, Json
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.seeing.pods import PodFact, pod_fact
from gpufleet.errors import NotFound

LINES_KEPT: Final = 2000


@dataclass(frozen=True, slots=True)
class Mine:
    """A pod of ours: as it is, and what it says."""

    raw: Json
    fact: PodFact

    @property
    def asked(self) -> bool:
        """Whether we told it to leave before."""
        return names.STOP in (self.raw["metadata"].get("annotations") or {})

    @property
    def path(self) -> str:
        return f"{paths.pods_in(self.fact.namespace)}/{self.raw['metadata']['name']}"


def pods_of_attempt(api: Api, fleet: str, job: str, attempt: int) -> list[Mine]:
    """As the API has them now, not as a watch last told."""
    answer = api.ask(paths.get(paths.PODS, labelSelector=paths.attempt_selector(fleet, job, attempt)))
    found = [Mine(raw, fact) for raw in answer.get("items") or () if (fact := pod_fact(raw))]
    return [mine for mine in found if mine.fact.seen.job == job]


def stop_pods(api: Api, pods: Iterable[Mine], grace: timedelta) -> list[Json]:
    """Write down when we asked, then delete with the grace. The pods as they are afterwards, without those gone."""
    living = [mine for mine in pods if not mine.fact.seen.phase.is_over]
    now = api.told_at or datetime.now(UTC)
    noted = {"annotations": {names.STOP: now.isoformat().replace("+00:00", "Z")}}
    unasked = [mine for mine in living if not mine.asked]
    _all(api, [paths.merge(m.path, {"metadata": {"uid": m.fact.uid, **noted}}) for m in unasked])
    seconds = max(1, math.ceil(grace.total_seconds()))  # 0 would not wait for the process at all
    return _all(api, [paths.delete(m.path, uid=m.fact.uid, grace=seconds) for m in living])


def forget_pods(api: Api, pods: Iterable[Mine], logs: Logs) -> None:
    """Ended pods: keep their last lines, then let go of them. Pods that a lost node still shows are forced away."""
    ended = list(pods)
    keep_logs(api, ended, logs)
    _all(api, [paths.delete(m.path, uid=m.fact.uid, grace=0) for m in ended])
    _all(api, [paths.let_go(m.path, m.raw) for m in ended if m.fact.is_kept])


def ask_to_save(api: Api, pods: Iterable[Mine], number: int) -> list[Json]:
    """The number becomes a file in the container; a lower one than is there already is an old request."""
    asked = [m for m in pods if not m.fact.seen.phase.is_over and m.fact.save < number]
    body = {"annotations": {names.SAVE_REQUEST: str(number)}}
    return _all(api, [paths.merge(m.path, {"metadata": {"uid": m.fact.uid, **body}}) for m in asked])


def _all(api: Api, asks: list[Ask]) -> list[Json]:
    """Every answer; who is gone, or is someone else by now, is done. Raises the first other trouble."""
    found = []
    for answer in api.all(asks):
        if isinstance(answer, dict):
            found.append(answer)
        elif not isinstance(answer, NotFound | Conflict):
            raise answer
    return found


# ------------------------------------------------------------------ logs


@dataclass(frozen=True, slots=True)
class Logs:
    """Where the last lines of forgotten pods lie."""

    folder: Path

    def path(self, job: str, attempt: int, rank: int) -> Path:
        return self.folder / names.dns_label(job) / f"{attempt}-{rank}.log"

    def keep(self, job: str, attempt: int, rank: int, text: str) -> None:
        path = self.path(job, attempt, rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(path)

    def kept(self, job: str, attempt: int, rank: int) -> str | None:
        path = self.path(job, attempt, rank)
        return path.read_text() if path.is_file() else None


def read_log(path: str, lines: int) -> Ask:
    ask = paths.get(f"{path}/log", container=names.MAIN, tailLines=str(lines))
    return Ask(ask.method, ask.path, text=True)


def keep_logs(api: Api, pods: Iterable[Mine], logs: Logs) -> None:
    """What cannot be read (no container ran, the node is gone) is kept as nothing: the pod was there."""
    ran = list(pods)
    answers = api.all([read_log(m.path, LINES_KEPT) for m in ran if m.fact.seen.started_at], patience=2.0)
    texts = iter(answers)
    for mine in ran:
        answer = next(texts) if mine.fact.seen.started_at else {}
        seen = mine.fact.seen
        text = answer.get("text", "") if isinstance(answer, dict) else ""
        if text or logs.kept(seen.job, seen.attempt, seen.rank) is None:
            logs.keep(seen.job, seen.attempt, seen.rank, text)


def last_lines(text: str, tail: int) -> str:
    return "".join(text.splitlines(keepends=True)[-tail:]) if tail > 0 else ""
