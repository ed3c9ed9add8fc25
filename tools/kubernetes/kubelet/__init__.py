"""A process kubelet: nodes whose pods are real local processes, so that the way through the real API server is walked.

One container a pod, `restartPolicy: Never`; images are not run, so the command must be in the pod. Each pod has a
loopback address of its own; DNS names of its gang become addresses, paths of its mounts become folders, in its
environment and its command. Never here: probes, init containers, volumes of a machine or a store, security contexts,
admission by resources, other restart policies; a pod that needs one of the first fails and says so.
"""

from tools.kubernetes.kubelet.agent import TAINT, Kubelet

__all__ = ["TAINT", "Kubelet"]
