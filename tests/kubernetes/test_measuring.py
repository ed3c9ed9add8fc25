"""How busy GPUs are: a real Prometheus that scrapes an exporter with DCGM's names, asked as a cluster asks it."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.sandboxes import eventually

from gpufleet.clusters.kubernetes.measuring import Metrics, MetricsConfig, Use


@dataclass
class Exporter:
    """Says what a dcgm-exporter says of pods with GPUs; `lines` may change while it runs."""

    lines: list[str] = field(default_factory=list)

    def says(self, metric: str, value: float, *, pod: str = "train-1-0", gpu: int = 0, more: str = "") -> None:
        labels = (
            f'gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n1",namespace="gpufleet-vision",pod="{pod}",container="main"{more}'
        )
        self.lines.append(f"{metric}{{{labels}}} {value}")


@pytest.fixture
def exporter() -> Iterator[tuple[Exporter, int]]:
    told = Exporter()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(("\n".join(told.lines) + "\n").encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield told, server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def prometheus(exporter: tuple[Exporter, int], tmp_path: Path) -> Iterator[str]:
    """Its address; it scrapes once a second."""
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n"
        f"  - {{job_name: dcgm, honor_labels: true, static_configs: [{{targets: ['127.0.0.1:{exporter[1]}']}}]}}\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = subprocess.Popen(
        [
            "/usr/bin/prometheus",
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address={address}",
            "--log.level=error",
        ]
    )
    yield f"http://{address}"
    process.terminate()
    process.wait(20)


def use_of(url: str, pod: str = "train-1-0") -> Use:
    """What is told once anything is."""

    def look() -> Use | None:
        return Metrics(MetricsConfig(url, window="30s")).uses().get(("gpufleet-vision", pod))

    return eventually(look, within=40)


def test_a_pods_gpus_count_on_average_and_its_worst_gpu_by_memory(
    exporter: tuple[Exporter, int], prometheus: str
) -> None:
    told, _ = exporter
    for gpu, (busy, held) in enumerate([(0.9, 40_000), (0.5, 71_000)]):
        told.says("DCGM_FI_PROF_GR_ENGINE_ACTIVE", busy, gpu=gpu)
        told.says("DCGM_FI_DEV_FB_USED", held, gpu=gpu)
        told.says("DCGM_FI_DEV_GPU_UTIL", 1, gpu=gpu)
    found = use_of(prometheus)
    assert found.busy == pytest.approx(0.7)
    assert found.memory_mib == 71_000


def test_without_profiling_metrics_the_devices_own_percent_stands_in(
    exporter: tuple[Exporter, int], prometheus: str
) -> None:
    told, _ = exporter
    told.says("DCGM_FI_DEV_GPU_UTIL", 42)
    told.says("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.25, pod="slice-1-0", more=',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"')
    assert use_of(prometheus).busy == pytest.approx(0.42)
    assert use_of(prometheus, "slice-1-0").busy == pytest.approx(0.25)


def test_an_idle_card_that_belongs_to_no_pod_says_nothing(exporter: tuple[Exporter, int], prometheus: str) -> None:
    told, _ = exporter
    told.says("DCGM_FI_DEV_FB_USED", 900, pod="")
    told.says("DCGM_FI_DEV_FB_USED", 800)
    assert use_of(prometheus).memory_mib == 800
    assert set(Metrics(MetricsConfig(prometheus, window="30s")).uses()) == {("gpufleet-vision", "train-1-0")}


def test_a_wrong_query_is_told_and_is_no_error(prometheus: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Metrics(MetricsConfig(prometheus, window="soon")).uses() == {}
    assert "Prometheus does not answer" in capsys.readouterr().out
