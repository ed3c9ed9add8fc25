"""A made-up fleet in simulated time: jobs arrive, run at a speed that depends on where they stand, end, are stopped, move.

Belongs here: the workload, the event loop, the Kubernetes-like baselines, the metrics. Every decision of ours is a pass
of the product's own engine on a snapshot of the simulated fleet.
"""
