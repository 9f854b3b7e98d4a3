"""Checks that run before anything is made: each names what it found, and the remedy.

Others use `run`, `result.Result` and `result.Verdict`.
"""
