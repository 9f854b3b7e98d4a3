"""Clients of the broker that deliver everything in order or end, and topics that are still the ones they were.

Others use `reader.PartitionReader`, `producer.OrderedProducer`, `admin`, `topic_identity.TopicWatch` and
`acknowledged.AcknowledgedCheck`.
"""
