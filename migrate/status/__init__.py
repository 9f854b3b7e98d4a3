"""One snapshot of a migration: its stage, what holds it back, and the command to run next.

Others use `snapshot.Snapshot`, `facts.standing`, `look`, `blockers`, `told` and `readiness`.

look, measures   what metrics and alarms are made of; `exported` gives it Prometheus's names, `verdict` tells whether a
                 person is needed
"""
