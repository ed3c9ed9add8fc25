"""Amazon EC2 as a Cloud.

Belongs here: EC2's calls, codes, network cards and notices. Never here: what to buy, or another cloud.
"""
