"""Google Compute Engine as a Cloud.

Belongs here: Compute Engine's calls, operations, networks and codes. Never here: what to buy, or another cloud.
"""
