"""Federations of real processes. Peers without a server: ``peer`` is the loop, ``network`` Zenoh, ``wire`` messages."""
