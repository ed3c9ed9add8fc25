"""One verb per file: load, decide, record, act. The only writers of the database.

Never here: what another room is for.
"""
