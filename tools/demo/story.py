"""The demo's story, played through the real Airflow API and checked step by step."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx

from gpufleet.services.views import fleet_view, jobs_view
from tools.demo.acting import Story, StoryBroke
from tools.demo.airflow_api import AirflowApi
from tools.demo.night import bill, to_midnight
from tools.demo.supervisor import PYTHON
from tools.demo.telling import Teller
from tools.demo.up import Embedded

STEPS = 600
STEP_SECONDS = 0.03
TRAIN = f"python -m gpufleet.training.examples.digits --steps {STEPS} --seed 7 --step-seconds {STEP_SECONDS}"
PROBE = "python -m gpufleet.training.examples.digits --steps 100000 --seed 1 --step-seconds 0.05"
SERVE = "python -m gpufleet.training.examples.serve --memory-mib 7168"
IN_A_POD = " --host 0.0.0.0"
"""A pod of Kubernetes has an address of its own."""


def play(embedded: Embedded, tell: Teller) -> None:
    """All acts in order; raises StoryBroke with the sentence that did not hold."""
    story = Story(embedded, tell)
    story.holds(lambda: {"gpu_job", "chargeback_nightly"} <= set(story.admin.dag_ids()), 60, "the DAGs are in Airflow")
    reference = _reference_run(embedded.home)
    if story.is_sandbox:
        to_midnight(story)  # the story gets a finance day of its own
    train(story)
    serve(story)
    reclaim_with_purchase(story)
    reclaim_with_room(story)
    finish(story, reference)
    bill(story)
    tell.numbers(
        [
            ("trigger to processes started, median of 3", statistics.median(story.started[:3]), 4.0),
            ("reclaim notice to training resumed, room free, median of 3", statistics.median(story.resumed), 8.0),
        ]
    )


def _reference_run(home: Path) -> subprocess.Popen[str]:
    """The same training with the same seed, never interrupted and without gpufleet, for the comparison at the end."""
    folder = home / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    script = Path(__file__).with_name("reference.py")
    return subprocess.Popen(
        [PYTHON, str(script), str(STEPS), str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


# ------------------------------------------------------------------ acts


def _trigger(story: Story, who: AirflowApi, name: str, conf: dict[str, Any], *, processes: int) -> None:
    """Trigger `gpu_job` and measure until all its processes run."""
    began = time.monotonic()
    story.runs[name] = who.trigger("gpu_job", {"name": name, **conf})
    story.holds(lambda: len(_running(story, name)) == processes, 60, f"{name} runs with {processes} processes")
    story.started.append(time.monotonic() - began)


def _running(story: Story, name: str) -> list[Any]:
    """Pods of a job that run now, as the cluster sees them."""
    ids = {j["job"] for j in jobs_view(story.fleet) if j["name"] == name}
    pods = story.cluster.observe().pods if ids else ()
    return [p for p in pods if p.job in ids and p.phase.value == "running"]


def train(story: Story) -> None:
    tell = story.tell
    tell.act("1", "ada (team vision) triggers gpu_job: a training gang of 2 pods x 8 GPUs on spot capacity")
    conf = {
        "team": "vision", "project": "digits", "command": TRAIN, "pods": 2, "gpus": 8, "capacity": ["spot"],
        "checkpoint_interval": "3s", "topology_required": "leaf",
    }  # fmt: skip
    _trigger(story, story.ada, "train-digits", conf, processes=2)
    where = story.job("train-digits")["where"]
    leaves = {_leaf(story, place["node"]) for place in where}
    tell.say(f"started {story.started[-1]:.1f} s after the trigger on " + ", ".join(p["node"] for p in where))
    if len(leaves) != 1:
        raise StoryBroke(f"the gang lies in {len(leaves)} leaves, one was required")
    tell.held(f"both pods lie inside one leaf, {leaves.pop()}")


def _leaf(story: Story, node: str) -> str:
    return next("/".join(n["position"][1:]) for n in fleet_view(story.fleet)["nodes"] if n["node"] == node)


def serve(story: Story) -> None:
    tell = story.tell
    tell.act("2", "lin (team language) triggers three inference replicas that say they need 9 GiB each")
    command = SERVE if story.is_sandbox else SERVE + IN_A_POD
    conf = {
        "team": "language", "project": "search", "command": command, "kind": "inference", "pods": 3, "memory_gib": 9,
        "capacity": ["reserved"], "preemptible": False, "priority": 100,
    }  # fmt: skip
    _trigger(story, story.lin, "search-replicas", conf, processes=3)
    places = [(p["node"], s) for p in story.job("search-replicas")["where"] for s in p["slices"]]
    told = ", ".join(f"{node} GPU {s['gpu']} {s['profile']}@{s['start']}" for node, s in places)
    tell.say(f"started {story.started[-1]:.1f} s after the trigger on {told}")
    if len(places) != 3 or any(s["profile"] != "1g.10gb" for _, s in places):
        raise StoryBroke(f"three slices of 1g.10gb were expected, got {told}")
    how = "at legal starts (the sandbox refuses any other)" if story.is_sandbox else "of the node's device plugin"
    tell.held(f"three MIG slices {how}")
    story.holds(
        lambda: all(_answers(p.address) for p in _running(story, "search-replicas")), 30, "every replica answers"
    )
    tell.held("every replica answers /predict")


def _answers(address: str) -> bool:
    try:
        return bool(address) and httpx.get(f"http://{address}/healthz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def reclaim_with_purchase(story: Story) -> None:
    tell = story.tell
    tell.act(
        "3", "the training saves at its interval; then the cloud takes one of its nodes back, and has no more there"
    )
    story.holds(lambda: len(story.job("train-digits")["checkpoints"]) >= 2, 60, "two checkpoints are complete")
    before = story.job("train-digits")
    tell.held(f"saved at steps {', '.join(str(c['step']) for c in before['checkpoints'][-2:])}")
    if not before["where"]:
        raise StoryBroke("the training had ended before its node could be taken back: this machine is too busy")
    node = before["where"][1]["node"]
    tell.say(f"notice for {node}: ten seconds")
    noticed = time.monotonic()
    reclaim(story, node, then_unavailable=True)
    story.holds(lambda: _attempt(story, "train-digits") == 2, 60, "a second attempt is placed")
    bought = [i for i in fleet_view(story.fleet)["instances"] if i["offering"].startswith("spot-h100-west")]
    again = wait_for_progress(story, "train-digits", attempt=2)
    after = story.job("train-digits")
    tell.say(f"attempt 1 ended: {after['attempts'][0]['end_reason']}")
    tell.say(
        f"bought {len(bought)} x {bought[0]['offering'] if bought else '?'}; now on "
        + ", ".join(p["node"] for p in after["where"])
    )
    tell.say(f"resumed {again - noticed:.1f} s after the notice, new machines included")
    if not bought or {p["node"] for p in after["where"]} & {p["node"] for p in before["where"]}:
        raise StoryBroke("the gang did not move to newly bought nodes of another zone")
    tell.held(
        f"resumed from step {(after['progress'] or {}).get('base', {}).get('step')}, the newest complete checkpoint"
    )


def reclaim(story: Story, node: str, *, then_unavailable: bool = False) -> None:
    """What the cloud does: take a machine back."""
    story.sandbox.post("/v1/cloud/reclaim", json.dumps({"node": node, "then_unavailable": then_unavailable}).encode())


def _attempt(story: Story, name: str) -> int:
    return len(story.job(name)["attempts"])


def wait_for_progress(story: Story, name: str, attempt: int) -> float:
    """When the attempt has trained a step of its own, on our clock."""

    def goes_on() -> bool:
        progress = story.job(name)["progress"] or {}
        base = (progress.get("base") or {}).get("step", 0)
        return progress.get("attempt") == attempt and progress.get("step", 0) > base

    story.holds(goes_on, 60, f"attempt {attempt} of {name} goes on")
    return time.monotonic()


def reclaim_with_room(story: Story) -> None:
    tell = story.tell
    tell.act("3b", "three more reclaims, of a small job, while room is free elsewhere")
    conf = {
        "team": "vision", "project": "segmentation", "command": PROBE, "gpus": 1, "capacity": ["spot"],
        "checkpoint_interval": "2s", "env": {"GPUFLEET_PROGRESS_INTERVAL": "0.2"},
    }  # fmt: skip
    _trigger(story, story.ada, "probe", conf, processes=1)
    for attempt in range(1, 4):
        wait_for_progress(story, "probe", attempt)
        node = story.job("probe")["where"][0]["node"]
        noticed = time.monotonic()
        reclaim(story, node)
        story.resumed.append(wait_for_progress(story, "probe", attempt + 1) - noticed)
        tell.say(f"{node} taken back; training went on after {story.resumed[-1]:.1f} s")
    story.ada.mark("gpu_job", story.runs["probe"], "run", "failed")
    story.holds(lambda: story.state("probe") == "cancelled", 15, "marking the task failed cancels the job")
    tell.held("marked failed in Airflow: the job is cancelled")


def finish(story: Story, reference: subprocess.Popen[str]) -> None:
    tell = story.tell
    tell.act("4", "the training finishes")
    with tell.progress("training", STEPS) as bar:

        def done() -> bool:
            view = story.job("train-digits")
            bar((view["progress"] or {}).get("step", 0))
            return view["state"] in ("succeeded", "failed", "cancelled")

        story.holds(done, 120, "the training ends")
    if story.state("train-digits") != "succeeded":
        raise StoryBroke(f"the training {story.state('train-digits')}: {story.job('train-digits')['detail']}")
    run = story.runs["train-digits"]
    story.holds(lambda: story.ada.run_state("gpu_job", run) == "success", 60, "Airflow's run succeeds")
    ours = _digest(story.cluster.logs(story.job("train-digits")["job"], _attempt(story, "train-digits"), 0))
    theirs = _digest(reference.communicate(timeout=120)[0])
    tell.say(
        f"weights: {ours[:16]}... after {_attempt(story, 'train-digits')} attempts, {theirs[:16]}... uninterrupted"
    )
    if ours != theirs or not ours:
        raise StoryBroke("the final weights differ from those of the uninterrupted run")
    tell.held("equal to the last bit")


def _digest(text: str) -> str:
    return next((line.split("=", 1)[1].strip() for line in text.splitlines() if line.startswith("weights sha256=")), "")
