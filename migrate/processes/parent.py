"""A supervised process does not outlive its supervisor."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def follow_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies (prctl(2)); does nothing outside Linux or unsupervised."""
    if os.environ.get("MIGRATE_SUPERVISED") != "1" or not hasattr(signal, "SIGTERM"):
        return
    parent = os.getppid()
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    except (AttributeError, OSError):
        return
    if os.getppid() != parent:  # it died before we asked
        raise SystemExit(0)
