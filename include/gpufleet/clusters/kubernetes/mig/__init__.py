"""Other MIG layouts by the operator's MIG manager: cordon, drain, label, wait, verify, uncordon.

Belongs here: what to do next about one node, from what is seen of it. Never here: which layout is wanted, or a call to
an API.
"""
