"""The consumer: owns partitions, records every message, and only then queues it for the merger.

Others use `consumer.Consumer`.
"""
