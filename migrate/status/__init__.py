"""One snapshot of a migration: its stage, what holds it back, and the command to run next.

Others use `snapshot.Status`, `stage.whole`, `stage.Whole`, `readiness` and `next_step`.
"""
