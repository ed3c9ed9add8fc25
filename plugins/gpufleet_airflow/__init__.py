"""The Airflow edge: operators, triggers, links, listener. Reads the context, calls one service, returns a small dict.

Never here: a decision, a table, anything the CLI would need too.
"""
