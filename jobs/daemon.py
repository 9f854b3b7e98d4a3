"""Spark's Python daemon on this machine, with our modules imported before it forks workers.

Without this every worker would spend 0.6 s importing, and as long reading the archives that Spark puts before the
installed packages.
"""

from __future__ import annotations

import gc
import sys

_ARCHIVES = (".zip", ".jar")
sys.path[:] = [path for path in sys.path if not path.endswith(_ARCHIVES)]
for path in [path for path in sys.path_importer_cache if path.endswith(_ARCHIVES)]:
    del sys.path_importer_cache[path]

from pyspark.daemon import manager  # noqa: E402  from the installed package, as all that follows

import jobs.full_copy  # noqa: E402
import jobs.verify  # noqa: E402

__all__ = ["jobs"]

if __name__ == "__main__":
    gc.freeze()  # a worker collects after each task, and would look at every module's objects: 50 ms
    manager()
