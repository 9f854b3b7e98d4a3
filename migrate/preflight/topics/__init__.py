"""Whether the topics fit: what a broker has already, and its settings.

Others use `checks` and `stale_topics`.
"""
