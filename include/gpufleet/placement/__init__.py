"""Where a job may run: filters with reasons, MIG geometry, choice of devices, topology, gangs, the undo ledger.

Belongs here: everything that answers "does it fit, and which place leaves the most room".
Never here: queues, quotas, who goes first, who must leave.
"""

from gpufleet.placement.gang import Gang, holds, place_gang
from gpufleet.placement.ledger import Ledger
from gpufleet.placement.repartition import repartitions
from gpufleet.placement.topology import Topology

__all__ = ["Gang", "Ledger", "Topology", "holds", "place_gang", "repartitions"]
