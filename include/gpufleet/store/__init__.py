"""The database: schema, migrations, repositories, unit of work. Held only by our own processes.

Never here: what another room is for.
"""
