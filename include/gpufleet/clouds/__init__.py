"""Places where capacity is bought, each behind one Protocol (`base.Cloud`).

Belongs here: SDK calls turned into offerings, instances, notices and typed errors; differences between clouds as data.
Never here: what to buy.
"""
