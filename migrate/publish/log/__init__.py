"""The source's binlog: connection, packets, events, positions and GTID sets.

Others use `binlog.BinlogReader`, `gtid.GtidSet`, `locate.Locator`, `ahead.LookAhead`, `progress.Progress`
and `logfiles`.
"""
