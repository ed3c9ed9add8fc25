"""A deadline gang on spot capacity: how long zones last, what may be risked, where to run until the next look.

Everything is pure: the rows seen so far go in, a place comes out.
"""
