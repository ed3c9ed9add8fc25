"""Replays of the openb workloads (Alibaba's cluster-trace-gpu-v2023, as FGD's experiments use it).

Pods arrive one by one, are tried once, and none departs; what is measured is how much of the GPUs is given out at each
share of arrivals. Belongs here: reading the traces, our engine and the published rules behind one small Protocol.
"""
