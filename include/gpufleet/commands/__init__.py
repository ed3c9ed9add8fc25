"""What each verb of the command line does and prints; `cli.py` only names them and their options.

Every verb takes `--json` (one document on stdout, nothing else there) and leaves heavy imports to where they are used.
Never here: a rule; a verb asks a service or a pure room and shows the answer.
"""
