"""A job for another scheduler, on the nodes that are its own: the pods, their group, its queue; and quotas for it.

Belongs here: what Kueue, Volcano and KAI are told, and what they answer, as pure functions. Never here: a decision of
ours: on these nodes the other scheduler places and evicts.
"""
