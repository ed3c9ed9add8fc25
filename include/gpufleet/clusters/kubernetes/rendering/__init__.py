"""From our facts to Kubernetes objects: plain dicts, fit for JSON, the same for the same facts.

Belongs here: what an object of ours looks like. Never here: a call to an API, a clock, a random number.
"""
