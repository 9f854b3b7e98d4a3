"""The publisher: one source's binlog becomes messages in Kafka; its position follows what Kafka has confirmed.

Others use `publisher.Publisher`, `start_position.source_end` and `configured_start.StartFinder`.
"""
