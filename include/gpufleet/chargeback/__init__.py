"""Money: metering, pricing, allocation of shared cost, statements that add up.

Never here: what another room is for.
"""
