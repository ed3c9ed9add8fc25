"""A real Kubernetes control plane on one machine, for tests and the demo: built from Go modules, started without Docker.

Never here: anything the product needs elsewhere; this folder builds, starts, plays nodes and stops.
"""
