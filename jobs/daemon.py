"""Spark's Python daemon on this machine, with our modules imported before it forks workers.

Each of a task's steps runs in a worker of its own; without this every one of them would spend 0.6 s importing.
"""

from __future__ import annotations

from pyspark.daemon import manager

import jobs.frames
import migrate.scroll.check
import migrate.scroll.tasks

__all__ = ["jobs", "migrate"]

if __name__ == "__main__":
    manager()
