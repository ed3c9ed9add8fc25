"""Frozen facts: what hardware, work, tenants, capacity and plans are.

Belongs here: dataclasses with derived properties, and the one catalogue of GPU models.
Never here: a decision, a clock, a random number, I/O other than reading the packaged catalogue, any framework.
"""
