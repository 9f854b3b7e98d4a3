"""The state database: one module a state table.

Others use `database`, `lease.Leases`, `migration.Migration`, `position.Position` and
`record`.
"""
