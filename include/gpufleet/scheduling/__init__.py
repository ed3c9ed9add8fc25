"""When a job runs, and instead of whom: queue order, the ordered actions of one pass, explanations.

Never here: what another room is for.
"""
