"""A made-up world in simulated time, run through the product's own engine.

Never here: what another room is for.
"""
