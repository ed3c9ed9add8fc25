"""How much a queue may use: deserved, limit, fair share, and from whom it may be reclaimed.

Belongs here: amounts by queue and GPU model, exact, and the rules that compare them.
Never here: nodes, devices, which job goes first.
"""

from gpufleet.quota.fairshare import fair_shares
from gpufleet.quota.report import QueueUse, usage
from gpufleet.quota.tree import Tree
from gpufleet.quota.usage import Usage, cost

__all__ = ["QueueUse", "Tree", "Usage", "cost", "fair_shares", "usage"]
