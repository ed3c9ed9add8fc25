"""What runs inside a job's container: resume, save at an interval, on request and on SIGTERM, and say how far it is.

Here belongs what a training process calls, and the files it shares with its orchestrator (`manifest`).
Never here: an import of anything else of gpufleet, a scheduling decision, or a need for it to be used at all:
a job that reads the environment, obeys SIGTERM and writes the files of `manifest` works without this package.
"""

from gpufleet.training.errors import CheckpointError, WorldSizeChanged
from gpufleet.training.run import Run, start
from gpufleet.training.watching import Wish

__all__ = ["CheckpointError", "Run", "Wish", "WorldSizeChanged", "start"]
