"""A small inference replica: `python -m gpufleet.training.examples.serve --memory-mib 2048`.

GET /healthz says whether it takes requests; POST /predict with {"pixels": [64 numbers, 0 to 16]} names the digit.
It runs until SIGTERM, finishes what it has begun, and leaves with status 0.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import signal
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import numpy as np

from gpufleet.training.examples.model import LAYERS, Vector, chances_of, parse_weights, train_alone

_MIB: Final = 1 << 20
_LONGEST: Final = 64 * 1024
_QUICK_STEPS: Final = 150
"""About 90 % right on the test digits, in a tenth of a second."""

_LEAVE: Final = {signal.SIGTERM, signal.SIGINT}


class Replica(ThreadingHTTPServer):
    """The model and the memory it holds. Closing it waits for the requests under way."""

    daemon_threads = False

    def __init__(self, address: tuple[str, int], weights: Vector, memory: mmap.mmap | None) -> None:
        super().__init__(address, Handler)
        self.weights, self.memory, self.is_draining = weights, memory, False

    def health(self) -> dict[str, object]:
        mib = len(self.memory) // _MIB if self.memory else 0
        return {"status": "draining" if self.is_draining else "ok", "memory_mib": mib}

    def predict(self, question: object) -> dict[str, object]:
        """Raises ValueError for anything but 64 numbers between 0 and 16."""
        pixels = np.asarray(question.get("pixels") if isinstance(question, dict) else None, dtype=object)
        if pixels.shape != LAYERS[:1] or not all(type(v) in (int, float) and 0 <= v <= 16 for v in pixels):
            raise ValueError("'pixels' must be a list of 64 numbers between 0 and 16.")
        chances = chances_of(self.weights, pixels.astype(np.float64)[None] / 16)[0]
        return {"digit": int(chances.argmax()), "chance": round(float(chances.max()), 4)}


class Handler(BaseHTTPRequestHandler):
    """Two paths, JSON both ways."""

    server: Replica
    timeout = 5  # a client that connects and says nothing must not hold up the drain

    def do_GET(self) -> None:
        if self.path != "/healthz":
            return self._answer(404, {"error": f"There is no {self.path} here; try /healthz or POST /predict."})
        return self._answer(503 if self.server.is_draining else 200, self.server.health())

    def do_POST(self) -> None:
        if self.path != "/predict":
            return self._answer(404, {"error": f"There is no {self.path} here; POST goes to /predict."})
        try:
            length = min(int(self.headers.get("Content-Length") or 0), _LONGEST)
            return self._answer(200, self.server.predict(json.loads(self.rfile.read(length))))
        except (ValueError, RecursionError) as error:
            return self._answer(400, {"error": str(error)})

    def log_message(self, format: str, *args: object) -> None:
        """One line a request would bury the log of the job."""

    def _answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    # Blocked before any thread starts, and taken by sigwait: no handler runs in the midst of something.
    signal.pthread_sigmask(signal.SIG_BLOCK, _LEAVE)
    weights = parse_weights(options.weights.read_bytes()) if options.weights else train_alone(0, _QUICK_STEPS)
    port = int(os.environ.get("GPUFLEET_SERVE_PORT") or 0)
    with Replica((options.host, port), weights, hold(options.memory_mib, touch=options.touch)) as replica:
        serving = threading.Thread(target=replica.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        print(f"serving on http://{options.host}:{replica.server_address[1]}", flush=True)
        signal.sigwait(_LEAVE)
        replica.is_draining = True
        replica.shutdown()
        serving.join()
    print("drained", flush=True)
    return 0


def hold(mib: int, *, touch: bool) -> mmap.mmap | None:
    """Stand in for a model's GPU memory: address space only, unless *touch* makes it real memory of this machine."""
    if not mib:
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = mmap.mmap(-1, mib * _MIB, flags=flags)
    if touch:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1
    return memory


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="serve", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--memory-mib", type=int, default=0, help="memory that the model takes")
    parser.add_argument("--touch", action="store_true", help="take that memory from this machine in earnest")
    parser.add_argument("--weights", type=Path, help="weights.bin of the digits example; trained at start when absent")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 in a pod")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
