"""What a DaemonSet runs on each node: hears the cloud's notice and warns the pods at once.

Never here: what another room is for.
"""
