"""Answers of Prometheus, good and bad, without one."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.clusters.kubernetes.measuring import Metrics, MetricsConfig, queries, values

HERE = MetricsConfig("http://prometheus.monitoring:9090")


def vector(*series: tuple[dict[str, str], str]) -> dict[str, Any]:
    return {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": m, "value": [0, v]} for m, v in series]},
    }


def test_series_without_a_pod_or_a_number_say_nothing() -> None:
    mine = {"namespace": "n", "pod": "p"}
    answer = vector(
        (mine, "0.5"), ({"namespace": "n"}, "1"), (mine | {"pod": "q"}, "NaN"), (mine | {"pod": "r"}, "+Inf")
    )
    assert values(answer, HERE) == {("n", "p"): 0.5}


@pytest.mark.parametrize("answer", [None, [], {}, {"data": None}, {"data": {"resultType": "matrix", "result": []}}])
def test_what_is_no_vector_is_refused(answer: Any) -> None:
    with pytest.raises(ValueError, match="no instant vector"):
        values(answer, HERE)


def test_exported_labels_are_asked_for_where_the_scrape_renames_them() -> None:
    config = MetricsConfig("http://p", "exported_namespace", "exported_pod", "2m")
    busy, memory = queries(config)
    assert 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{exported_pod!=""}[2m]' in busy and "DCGM_FI_DEV_GPU_UTIL" in busy
    assert memory.startswith("max by (exported_namespace, exported_pod)")
    assert values(vector(({"exported_namespace": "n", "exported_pod": "p"}, "7")), config) == {("n", "p"): 7.0}


def test_nobody_is_asked_where_no_prometheus_is_named() -> None:
    assert Metrics(MetricsConfig()).uses() == {}


def test_nobody_there_is_told_once_and_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = Metrics(MetricsConfig("http://127.0.0.1:9"))
    assert [metrics.uses(), metrics.uses()] == [{}, {}]
    assert capsys.readouterr().out.count("Prometheus does not answer") == 1
