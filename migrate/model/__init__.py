"""Values and errors that every package shares: standard library only, no I/O.

Others use `errors.MigrateError`, `table.Table`, `change.Key`, `coordinate.Coordinate`, `message.Message` and
`partition.Partition`.
"""
