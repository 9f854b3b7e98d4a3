"""The full copy without Spark in it: a table's steps and attempts, what a task does with a chunk, and the throttle.

Others use `table_copy.TableCopy`, `tables_copy.TablesCopy`, `tasks.CopyJob`, `governor.Governor`, `recopy.Recopy` and
`operator_limits`.
"""
