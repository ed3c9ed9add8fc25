"""One module a cloud: how its metadata service is asked, and what its answers mean.

Belongs here: addresses, headers, fields. Never here: what is done about a notice.
"""
