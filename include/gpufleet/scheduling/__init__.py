"""When a job runs, and instead of whom: queue order, the ordered actions of one pass, explanations.

Belongs here: `run_pass` and what it is made of. Pure: the same snapshot gives the same plan, byte for byte.
Never here: a clock, a database, an effect. Which device is placement's answer, how much is quota's.
"""

from gpufleet.scheduling.ever import check_job
from gpufleet.scheduling.explain import Explanation, explain
from gpufleet.scheduling.planner import ACTIONS, decisions, run_pass
from gpufleet.scheduling.replay import Settled, apply, settle
from gpufleet.scheduling.what_if import Change, Difference, what_if

__all__ = [
    "ACTIONS",
    "Change",
    "Difference",
    "Explanation",
    "Settled",
    "apply",
    "check_job",
    "decisions",
    "explain",
    "run_pass",
    "settle",
    "what_if",
]
