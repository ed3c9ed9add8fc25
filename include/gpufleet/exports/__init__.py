"""Files for finance and people: CSV, statements, charts.

Belongs here: turning an answer that is settled into a file others read, the same bytes for the same answer.
Never here: a number that is not in the answer.
"""
