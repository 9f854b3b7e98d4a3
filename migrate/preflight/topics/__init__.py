"""Whether the topics fit: what a broker has already, and its settings.

Others use `kafka`, `topic_settings` and `stale_topics`.
"""
