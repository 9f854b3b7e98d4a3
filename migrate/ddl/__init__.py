"""Statements over all shard tables of a logical table: planned, run, resumed, undone.

Others use `plan.Plan`, `runner.Runner`, `servers.load_servers`, `shards.Wanted` and `levels.Bound`.
"""
