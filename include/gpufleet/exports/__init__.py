"""Files for finance and people: CSV, statements, charts.

Never here: what another room is for.
"""
