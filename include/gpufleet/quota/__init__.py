"""How much a queue may use: deserved, limit, fair share, what may be reclaimed.

Never here: what another room is for.
"""
