"""A process kubelet: nodes whose pods are real local processes, so that the way through the real API server is walked.

One container a pod, `restartPolicy: Never`; images are not run, so the command must be in the pod. Never here: probes,
init containers, volumes of a machine or a store, security contexts, other restart policies; such a pod fails and says so.
"""
