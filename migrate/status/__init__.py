"""One snapshot of a migration: its stage, what holds it back, and the command to run next.

Others use `snapshot.Snapshot`, `facts.standing`, `stage.StageStatus`, `blockers`, `told` and `readiness`.
"""
