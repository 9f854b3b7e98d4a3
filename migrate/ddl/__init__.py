"""Statements over all shard tables of a logical table: planned, run, resumed, undone.

Others use `plan.Plan`, `runner`, `servers.load_servers`, `shards.Wanted` and `levels.Allowance`.
"""
