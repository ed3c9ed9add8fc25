"""Measured: how fast the engine decides, and what it is worth on public workloads. `make bench` runs it all."""
