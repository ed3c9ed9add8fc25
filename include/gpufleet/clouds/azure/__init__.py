"""Azure's virtual machine scale sets as a Cloud.

Belongs here: Azure's calls, states, prices and codes. Never here: what to buy, or another cloud.
"""
