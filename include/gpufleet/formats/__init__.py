"""The files of docs/formats.md to and from frozen facts; every error names file, line or path, and key.

Belongs here: reading and writing, and every check of what a file says.
Never here: a decision, the database, a network.
"""
