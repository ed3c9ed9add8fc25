"""What the GPUs under our pods do: counted by DCGM's exporter, kept by Prometheus, asked over its HTTP API.

`DCGM_FI_PROF_GR_ENGINE_ACTIVE` is the share of time in which any work ran (0 to 1) and the only such figure that MIG
slices have; `DCGM_FI_DEV_GPU_UTIL` (percent) stands in where the profiling metrics are off. `DCGM_FI_DEV_FB_USED` is MiB
of the device, CUDA context included. (NVIDIA, "DCGM Exporter", default-counters.csv.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import structlog

log = structlog.get_logger()

Pod = tuple[str, str]
"""(namespace, name)"""


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Where Prometheus is. With `honor_labels: false` the exporter's own labels are exported_namespace, exported_pod."""

    url: str = ""
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    window: str = "5m"
    """PromQL duration over which a share of time is averaged and a peak is sought."""


@dataclass(frozen=True, slots=True)
class Use:
    """Of one pod: the part of the window in which its GPUs worked, on average; the most memory any of them held, MiB."""

    busy: float | None = None
    memory_mib: int | None = None


PATIENCE: Final = 2.0
"""Seconds for one answer: a look at the cluster must not wait for its figures."""
EVERY: Final = 15.0
"""Seconds for which an answer, or that there was none, is good enough; exporters count no faster."""


class Metrics:
    """Remembers the last answer. Trouble is told once and means that nothing is known, never an error."""

    def __init__(self, config: MetricsConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._asked = -EVERY
        self._known: dict[Pod, Use] = {}
        self._told = ""

    def uses(self) -> Mapping[Pod, Use]:
        """By pod; empty where nobody measures."""
        if not self._config.url:
            return {}
        with self._lock:
            if time.monotonic() - self._asked >= EVERY:
                self._known = self._ask()
                self._asked = time.monotonic()
            return self._known

    def _ask(self) -> dict[Pod, Use]:
        try:
            with httpx.Client(base_url=self._config.url, timeout=PATIENCE) as client:
                busy, memory = (self._values(client, query) for query in queries(self._config))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as e:
            self._tell(str(e) or type(e).__name__)
            return {}
        self._tell("")
        return {
            pod: Use(min(1.0, max(0.0, busy[pod])) if pod in busy else None, round(memory.get(pod, 0)) or None)
            for pod in busy.keys() | memory.keys()
        }

    def _values(self, client: httpx.Client, query: str) -> dict[Pod, float]:
        answer = client.get("/api/v1/query", params={"query": query})
        if answer.status_code >= 400:
            raise ValueError(f"HTTP {answer.status_code}: {answer.text[:200]}")
        return values(answer.json(), self._config)

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._told:
            log.warning("Prometheus does not answer; use of GPUs is not known", url=self._config.url, error=trouble)
        self._told = trouble


def queries(config: MetricsConfig) -> tuple[str, str]:
    """PromQL for the share of time at work, and for the peak of memory, by pod."""
    by, which = f"by ({config.namespace_label}, {config.pod_label})", f'{{{config.pod_label}!=""}}[{config.window}]'
    engine = f"avg {by} (avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{which}))"
    device = f"avg {by} (avg_over_time(DCGM_FI_DEV_GPU_UTIL{which})) / 100"
    return f"{engine} or {device}", f"max {by} (max_over_time(DCGM_FI_DEV_FB_USED{which}))"


def values(answer: Any, config: MetricsConfig) -> dict[Pod, float]:
    """An instant vector by pod; NaN, infinities and series without a pod say nothing. Raises ValueError for no vector."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict) or data.get("resultType") != "vector" or not isinstance(data.get("result"), list):
        raise ValueError("the answer is no instant vector of Prometheus")
    found: dict[Pod, float] = {}
    for series in data["result"]:
        labels, value = series["metric"], float(series["value"][1])
        pod = labels.get(config.namespace_label, ""), labels.get(config.pod_label, "")
        if pod[1] and value == value and abs(value) != float("inf"):
            found[pod] = value
    return found
