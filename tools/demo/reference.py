"""Trains the demo's model with two ranks, never interrupted and without gpufleet: what the recovered run must equal."""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def main() -> None:
    steps, folder = sys.argv[1], sys.argv[2]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    # as little as a pod inherits: a variable that chooses how a library adds up would change the last bits
    base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "gpufleet.training.examples.digits", "--steps", steps, "--seed", "7"],
            cwd=folder,
            env={**base, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
        )
        for rank in range(2)
    ]
    sys.exit(max(process.wait() for process in ranks))


if __name__ == "__main__":
    main()
