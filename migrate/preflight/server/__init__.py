"""Whether each server fits: version, binlog, grants, session variables, clocks and limits.

Others use `checks`, `grants`, `state`, `state_trial` and `time_zones.Zone`.
"""
