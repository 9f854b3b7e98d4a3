"""One use case a module: what a command does, without its arguments and its output.

Others use `init`, `drain`, `cutover_run`, `finish`, `parked` and `foreign`.
"""
