"""Worlds where pods run, each behind one Protocol (`base.Cluster`).

Belongs here: reading a world into facts and carrying out one effect at a time, idempotently.
Never here: a decision about who runs where.
"""
