"""One gang with a deadline on a recorded spot market, exactly: ticks of ten minutes, units of two.

Belongs here: the market's facts, the replay, the named policies, the clairvoyant optimum, the answer over many starts.
Never here: reading files; our own policy, which is `procurement/spot`.
"""
