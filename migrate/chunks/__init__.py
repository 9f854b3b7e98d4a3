"""Chunks of a table, as copy and verification share them: key ranges, planning, sizing, and a chunk's lines.

Others use `planner.Planner`, `keyrange.condition`, `sessions.Sessions`, `outcome.Problem` and `line`.
"""
