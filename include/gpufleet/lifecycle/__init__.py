"""The life of a job: events in, next state and instructions out; checkpoint cadence; retry and blame.

Never here: what another room is for.
"""
