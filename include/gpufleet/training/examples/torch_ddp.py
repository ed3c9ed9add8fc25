"""The same loop with PyTorch: `torchrun --nproc-per-node 2 -m gpufleet.training.examples.torch_ddp --steps 200`.

torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which is all that both sides need.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

import torch  # type: ignore[import-not-found,unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore]
from torch.nn.parallel import DistributedDataParallel  # type: ignore[import-not-found,unused-ignore]

from gpufleet.training import Run, Wish, start
from gpufleet.training.examples.model import BATCH, load_digits


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="torch_ddp", description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    run = start(total_steps=options.steps)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        train(run, options)
    finally:
        dist.destroy_process_group()
    run.finish(options.steps)
    return 0


def train(run: Run, options: argparse.Namespace) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if torch.cuda.is_available() else "cpu"
    digits = load_digits().training
    pixels = torch.tensor(digits.pixels, dtype=torch.float32, device=device)
    labels = torch.tensor(digits.labels, device=device)
    random = torch.Generator().manual_seed(options.seed)
    torch.manual_seed(options.seed)
    layers = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    model = DistributedDataParallel(layers.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    _restore(run, model, optimizer, random)
    for step in range(run.first_step + 1, options.steps + 1):
        rows = torch.randint(len(labels), (BATCH,), generator=random)[rank::ranks]
        loss = torch.nn.functional.cross_entropy(model(pixels[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.progress(step, loss=loss.item())
        wish, peak_mib = _largest(run.wish(), device)
        run.memory(peak_mib)
        if wish >= Wish.SAVE:
            run.save(step, _state(model, optimizer, random))
        if wish is Wish.STOP:
            run.stopped()


def _largest(wish: Wish, device: object) -> tuple[Wish, float]:
    """The largest wish and memory peak of all ranks. One small all-reduce a step; with short steps do it every few."""
    peak_mib = torch.cuda.max_memory_reserved() / 2**20 if torch.cuda.is_available() else 0.0
    shared = torch.tensor([float(wish), peak_mib], device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return Wish(int(shared[0].item())), shared[1].item()


def _state(model: torch.nn.Module, optimizer: torch.optim.Optimizer, random: torch.Generator) -> bytes:
    buffer = io.BytesIO()
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": random.get_state()}
    torch.save(states, buffer)
    return buffer.getvalue()


def _restore(run: Run, model: torch.nn.Module, optimizer: torch.optim.Optimizer, random: torch.Generator) -> None:
    # All ranks hold the same, so the part of rank 0 serves any number of ranks.
    if saved := run.restore(rank=0):
        states = torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
        model.load_state_dict(states["model"])
        optimizer.load_state_dict(states["optimizer"])
        random.set_state(states["random"])


if __name__ == "__main__":
    sys.exit(main())
