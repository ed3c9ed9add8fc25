"""FastAPI routes, templates and static files; gets a Fleet and a Principal handed in.

Never here: what another room is for.
"""
