"""A real Kubernetes API as a Cluster: the NVIDIA GPU Operator's conventions on one side, our facts on the other.

Belongs here: reading objects into facts, rendering facts into objects, and the one client that speaks to the API.
Never here: a decision about who runs where.
"""
