"""Long-running processes: the stages wired up, their signals and leases, the supervisor, and logs.

Others use `entry`, `supervisor`, `logs`, `exclusive` and `parent.follow_parent`.
"""
