"""The tables, by room. Constraints carry the invariants where a database can; history is appended, not edited.

Never here: a query.
"""
