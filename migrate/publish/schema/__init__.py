"""Which columns each table has at a place in the log, and what a statement changes of that.

Others use `schema.Schema`, `following.History`, `definitions.Definitions`, `statement.parse_query` and `shadow`.
"""
