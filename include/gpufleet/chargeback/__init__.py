"""Money: metering, pricing, allocation of idle and shared cost, statements that add up.

Belongs here: which number a bill shows and why, from usage events and rates as frozen facts (the rules are cited).
Never here: a file, a database, a clock, a float.
"""

from gpufleet.chargeback.billing import bill
from gpufleet.chargeback.statement import Bill, BillLine

__all__ = ["Bill", "BillLine", "bill"]
