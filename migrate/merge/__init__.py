"""What the queue held becomes work for the target: fold, resolve and plan (no I/O), then write, with retries.

Others use `merger.Merger` and `standby_guard.StandbyGuard`.
"""
