"""Whether each server fits: version, binlog, grants, session variables, clocks and limits.

Others use `versions`, `binlog`, `grants`, `session`, `connections` and `state`.
"""
