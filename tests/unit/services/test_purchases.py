"""What was bought counts until it takes work: nothing is bought twice while a machine is on its way."""

from __future__ import annotations

from pathlib import Path

from tests.fleets import played
from tests.sandboxes import eventually

WORLD = {
    "version": 1,
    "levels": ["zone", "leaf"],
    "nodes": [
        {"name": "n0", "model": "H100-80", "gpus": 8, "position": ["z", "l"], "capacity": "reserved", "region": "east"}
    ],
    "offerings": [
        {"name": "spot", "region": "east", "zone": "z", "leaf": "l", "instance_type": "gpu8", "capacity": "spot",
         "model": "H100-80", "gpus": 8, "price": "12.00", "launch_delay": "300ms", "available": 4},
    ],
}  # fmt: skip


def test_a_machine_that_has_joined_and_is_not_ready_yet_is_not_bought_again(tmp_path: Path) -> None:
    with played(tmp_path, WORLD) as fleet:
        job = fleet.submit(gpus=8, capacity=["spot"])
        cloud, cluster = fleet.sandbox.cloud(), fleet.sandbox.cluster()

        def is_bought() -> bool:
            fleet.tick()
            return bool(cloud.instances())

        eventually(is_bought)
        (machine,) = cloud.instances()
        eventually(lambda: machine.name in {node.name for node in cluster.observe().nodes})
        cluster.cordon(machine.name, on=True)
        for _ in range(4):
            fleet.tick()
        assert [instance.name for instance in cloud.instances()] == [machine.name]
        cluster.cordon(machine.name, on=False)
        assert fleet.until(job, "running")["where"][0]["node"] == machine.name
        assert len(cloud.instances()) == 1
