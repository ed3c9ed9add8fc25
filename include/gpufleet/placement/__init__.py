"""Where a job may run: filters with reasons, scores, MIG geometry, topology, gangs, the undo ledger.

Never here: what another room is for.
"""
