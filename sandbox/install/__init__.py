"""Installing the servers the sandbox runs. See `install` in sandbox/install/plan.py."""
