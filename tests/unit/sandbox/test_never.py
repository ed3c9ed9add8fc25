"""What must never happen, whatever is asked for in whatever order: checked by counting, without the referee's code."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.sandbox.worlds import ask, pretended, settle, share_on, slice_on, whole, wish

from gpufleet.errors import GpufleetError
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import MigInstance, illegal_layout
from gpufleet.model.snapshot import PodPlace
from gpufleet.sandbox import gangs, machines, market
from gpufleet.sandbox.book import Book
from gpufleet.sandbox.caretaker import turn

NODES = [
    {"name": "h{}", "count": 2, "model": "H100-80", "gpus": 2, "cpu": 8, "memory_gib": 64, "position": ["z", "l"]},
    {"name": "r0", "model": "RTXPRO6000-96", "gpus": 1, "position": ["z", "l"], "layout": {0: ["1g.24gb@0"]}},
    {"name": "s0", "model": "H100-80", "gpus": 2, "position": ["z", "l"], "capacity": "spot", "offering": "spot"},
]
OFFERING = {
    "name": "spot",
    "zone": "z",
    "leaf": "l",
    "instance_type": "t",
    "capacity": "spot",
    "model": "H100-80",
    "gpus": 2,
    "price": "1",
    "launch_delay": "1s",
    "available": 2,
}
# The names of bought machines follow from their tokens, t0 and t1.
NAMES = ["h0", "h1", "r0", "s0", "i-512f26ad-0", "i-628b49d9-0"]
PROFILES = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.24gb", "2g.48gb"]

LAYOUTS = [
    (MigInstance(0, "1g.10gb"), MigInstance(4, "3g.40gb")),
    (MigInstance(0, "2g.20gb"), MigInstance(6, "1g.10gb")),
    (),
]

Held = tuple[str, MigInstance | None, int, int]
"""kind, MIG instance, thousandths, memory"""

nodes = st.sampled_from(NAMES)
gpus = st.integers(0, 1)
instances = st.builds(MigInstance, st.integers(0, 9), st.sampled_from(PROFILES))
host = st.sampled_from([None, 1.0, 5.0])
few_gpus = st.lists(gpus, min_size=1, max_size=2, unique=True)
nonsense = st.one_of(
    st.builds(lambda node, gpu, at: slice_on(node, gpu, at.profile, at.start), nodes, gpus, instances),
    st.builds(lambda node, twice: whole(node, *twice), nodes, st.lists(gpus, max_size=3)),
)
jobs = st.sampled_from(["a", "b", "c", "d"])
attempts = st.integers(1, 2)


wholes = st.builds(lambda node, some, cpu: whole(node, *some, cpu=cpu), st.sampled_from(NAMES[:4]), few_gpus, host)
shares = st.builds(share_on, st.just("h1"), gpus, st.sampled_from([300, 500]), st.sampled_from([9_000, 50_000]))


class AnyRequests(RuleBasedStateMachine):
    """Requests in any order, in a world whose processes end when they like, and a sandbox that is killed at will."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.world = pretended(Path(self._folder.name), nodes=NODES, offerings=[OFFERING], notice="3s")
        self.world.runner.is_deaf = True

    def teardown(self) -> None:
        self.world.site.book.close()
        self._folder.cleanup()

    def ask(self, verb: Any, *said: Any, **more: Any) -> None:
        """A request; one that is refused must leave everything as it was."""
        with turn(self.world.site):
            before = self._everything()
            try:
                verb(self.world.site, *said, **more)
            except GpufleetError:
                assert self._everything() == before, "a refused request changed something"

    def _everything(self) -> tuple[dict[Any, Any], ...]:
        return self._records(self.world.site.book)

    @staticmethod
    def _records(book: Book) -> tuple[dict[Any, Any], ...]:
        return dict(book.machines), dict(book.gangs), dict(book.stock), dict(book.instances)

    @rule(job=jobs, attempt=attempts, wanted=st.lists(wholes, min_size=1, max_size=2))
    def launch_whole(self, job: str, attempt: int, wanted: list[PodPlace]) -> None:
        self.ask(gangs.launch, ask(job, *wanted, attempt=attempt))

    @rule(job=jobs, attempt=attempts, wanted=st.lists(shares, min_size=1, max_size=2))
    def launch_shares(self, job: str, attempt: int, wanted: list[PodPlace]) -> None:
        self.ask(gangs.launch, ask(job, *wanted, attempt=attempt))

    @rule(job=jobs, attempt=attempts, pick=st.integers(0, 20))
    def launch_slice(self, job: str, attempt: int, pick: int) -> None:
        """One that exists; whether it is free is for the referee to say."""
        if existing := self._existing():
            node, gpu, instance = existing[pick % len(existing)]
            self.ask(gangs.launch, ask(job, slice_on(node, gpu, instance.profile, instance.start), attempt=attempt))

    @rule(job=jobs, wanted=st.lists(nonsense, min_size=1, max_size=2))
    def launch_anything(self, job: str, wanted: list[PodPlace]) -> None:
        self.ask(gangs.launch, ask(job, *wanted))

    @initialize()
    def something_runs_already(self) -> None:
        self.ask(gangs.launch, ask("a", whole("s0", 0), whole("h0", 0)))
        self.ask(gangs.launch, ask("b", share_on("h1", 0, 500, 9_000), share_on("h1", 1, 300, 50_000)))

    def _existing(self) -> list[tuple[str, int, MigInstance]]:
        return [
            (machine.name, device.index, instance)
            for machine in self.world.site.book.machines.values()
            for device in machine.devices
            for instance in device.instances
        ]

    @rule(job=jobs, attempt=attempts, grace=st.sampled_from([0, 2]))
    def stop(self, job: str, attempt: int, grace: int) -> None:
        self.ask(gangs.stop, job, attempt, timedelta(seconds=grace))

    @rule(job=jobs, attempt=attempts)
    def end_and_remove(self, job: str, attempt: int) -> None:
        self.ask(gangs.stop, job, attempt, timedelta(0))
        self.world.pass_time(1)
        self.ask(gangs.remove, job, attempt)

    @rule(gpu=gpus, destroy=st.lists(instances, max_size=2), create=st.lists(instances, max_size=3))
    def repartition_anyhow(self, gpu: int, destroy: list[MigInstance], create: list[MigInstance]) -> None:
        self.ask(machines.repartition, "h0", gpu, destroy=tuple(destroy), create=tuple(create))

    @rule(gpu=gpus, create=st.sampled_from(LAYOUTS))
    def cut(self, gpu: int, create: tuple[MigInstance, ...]) -> None:
        self.ask(machines.repartition, "h0", gpu, destroy=(), create=create)

    @rule(gpu=gpus, create=st.sampled_from(LAYOUTS))
    def cut_anew(self, gpu: int, create: tuple[MigInstance, ...]) -> None:
        destroy = tuple(instance for node, at, instance in self._existing() if (node, at) == ("h0", gpu))
        self.ask(machines.repartition, "h0", gpu, destroy=destroy, create=create)

    @rule(node=nodes, gpu=gpus, on=st.booleans(), what=st.sampled_from(["cordon", "health", "fail"]))
    def something_happens_to_a_node(self, node: str, gpu: int, on: bool, what: str) -> None:
        if what == "cordon":
            self.ask(machines.cordon, node, on=on)
        elif what == "health":
            self.ask(machines.set_health, node, gpu, healthy=on)
        elif node != "h0":
            self.ask(machines.fail, node)

    @rule(
        node=st.sampled_from(NAMES[2:]),
        token=st.sampled_from(["t0", "t1"]),
        what=st.sampled_from(["buy", "reclaim", "terminate"]),
    )
    def something_happens_in_the_cloud(self, node: str, token: str, what: str) -> None:
        if what == "buy":
            self.ask(market.launch, "spot", 1, token)
        else:
            self.ask(market.reclaim if what == "reclaim" else market.terminate, node)

    @rule(pick=st.integers(0, 20), code=st.sampled_from([0, 1]))
    def process_ends(self, pick: int, code: int) -> None:
        if running := sorted(self.world.runner.running):
            self.world.runner.end(running[pick % len(running)], code)

    @rule(seconds=st.sampled_from([0, 1, 5]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    @rule()
    def sandbox_is_killed(self) -> None:
        before, folder = self._everything(), self.world.site.folder
        self.world.site.book.close()
        assert self._records(Book(folder / "state.db")) == before, "what was on disk is not what was in memory"
        world = wish(nodes=NODES, offerings=[OFFERING], notice="3s")
        self.world = settle(folder, self.world.clock, self.world.runner, world)

    @invariant()
    def nothing_is_held_twice(self) -> None:
        held: dict[tuple[str, int], list[Held]] = defaultdict(list)
        for pod in self._living():
            place = pod.ask.place
            for gpu in place.gpus:
                held[place.node, gpu].append(("whole", None, 1000, 0))
            for one in place.slices:
                held[place.node, one.gpu].append(("slice", one.instance, 0, 0))
            for share in place.shares:
                held[place.node, share.gpu].append(("share", None, share.milli, share.memory_mib))
        for (node, gpu), holds in held.items():
            self._check_device(node, gpu, holds)

    def _check_device(self, node: str, gpu: int, holds: list[Held]) -> None:
        device = next(d for d in self.world.site.book.machines[node].devices if d.index == gpu)
        kinds = {kind for kind, *_ in holds}
        used = [instance for _, instance, _, _ in holds if instance]
        assert len(kinds) == 1, f"{node}/{gpu} is held in several ways: {holds}"
        assert kinds != {"whole"} or len(holds) == 1, f"{node}/{gpu} is held whole twice"
        assert len(set(used)) == len(used), f"{node}/{gpu}: one slice is held twice"
        assert set(used) <= set(device.instances), f"{node}/{gpu}: a slice that is held does not exist"
        assert kinds == {"slice"} or not device.instances, f"{node}/{gpu} is cut and held whole"
        assert sum(milli for *_, milli, _ in holds) <= 1000
        assert sum(memory for *_, memory in holds) <= self.world.site.book.machines[node].gpu.memory_mib

    @invariant()
    def layouts_are_legal(self) -> None:
        for machine in self.world.site.book.machines.values():
            for device in machine.devices:
                assert illegal_layout(gpu_model(machine.model), device.instances) is None

    @invariant()
    def hosts_are_not_overfull(self) -> None:
        cores: dict[str, float] = defaultdict(float)
        for pod in self._living():
            cores[pod.ask.place.node] += pod.ask.place.cpu or 0
        for name in ("h0", "h1"):
            assert cores[name] <= 8

    @invariant()
    def nothing_is_started_twice_and_nothing_runs_unknown(self) -> None:
        runner, site = self.world.runner, self.world.site
        known = {
            site.files(gang, pod.ask.rank).home
            for gang in site.book.gangs.values()
            for pod in gang.pods
            if not pod.is_over
        }
        assert all(count == 1 for count in runner.starts.values())
        assert runner.running <= known

    @invariant()
    def the_cloud_gives_only_what_it_has(self) -> None:
        assert self.world.site.book.stock["spot"].available >= 0

    def _living(self) -> list[Any]:
        return [pod for gang in self.world.site.book.gangs.values() for pod in gang.pods if not pod.is_over]


TestAnyRequests = AnyRequests.TestCase
TestAnyRequests.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[
        Phase.explicit,
        Phase.generate,
    ],  # shrinking a world takes minutes: add Phase.shrink when it finds something
)
