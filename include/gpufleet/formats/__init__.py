"""The files of docs/formats.md to and from frozen facts; every error names file, line or path, and key.

Never here: what another room is for.
"""
