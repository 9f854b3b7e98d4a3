"""What the queue held becomes rows at the target, one way: fold, resolve at the sources, plan, write with retries.

Others use `merger.Merger` and `standby_guard.Sides`.
"""
