"""What may still be risked: a step is safe if, whatever happens next, on-demand from the next look on meets the deadline.

Sharper than the bound `remaining + 2 delays + checkpoint >= time left`: what an interruption takes back at the next look
is known exactly, and a gang that leaves by itself loses nothing. From a safe standing there is always a safe step
(on-demand), so a deadline that on-demand from the start would have met is never missed.
"""

from __future__ import annotations

from gpufleet.procurement.spot.terms import Standing, Terms


def time_left(terms: Terms, tick: int) -> int:
    """From a look to the deadline, in whole ticks of time: a job ends at the end of a tick."""
    return (terms.deadline // terms.tick - tick) * terms.tick


def spare_time(terms: Terms, at: Standing) -> int:
    """Time left less work left. It never grows; waiting, delays and what interruptions take back use it up."""
    return time_left(terms, at.tick) - (terms.work - at.done)


def least_spare(terms: Terms) -> int:
    """With less, a new visit to a zone could leave no time for another start: two delays and a checkpoint interval."""
    return 2 * terms.delay + terms.checkpoint


def may_wait(terms: Terms, at: Standing) -> bool:
    """Whether a tick without machines leaves time enough."""
    return terms.work - at.done + terms.delay <= time_left(terms, at.tick + 1)


def may_run(terms: Terms, at: Standing, zone: int) -> bool:
    """Whether a tick in a zone leaves time enough even if the zone is lost at the next look."""
    ticks = at.ticks if zone == at.place else 0
    done = at.done + terms.progress(ticks + 1) - terms.progress(ticks)
    if done >= terms.work:
        return time_left(terms, at.tick + 1) >= 0
    return terms.work - done + terms.lost(ticks + 1) + terms.delay <= time_left(terms, at.tick + 1)
