"""gpufleet: a frozen snapshot goes in, a plan with reasons comes out, and only adapters touch the world."""

__version__ = "0.1.0"
