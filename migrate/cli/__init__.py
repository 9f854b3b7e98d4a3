"""Arguments in, text or JSON out: nothing is decided here.

Others use `main.main`.
"""
