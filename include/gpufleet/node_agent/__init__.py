"""What a DaemonSet runs on each node: hears the cloud's notice and warns the pods at once.

Belongs here: asking the cloud's metadata service, ending or warning our pods of this node, telling the node object, and
reading back which devices the kubelet gave to whom. Never here: a decision of who runs where; that is the controller's,
which may be far away and slow when a cloud leaves thirty seconds.
"""
