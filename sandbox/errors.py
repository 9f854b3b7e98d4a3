"""The sandbox's one exception."""


class SandboxError(Exception):
    """A server could not be installed, started or used; the text says which, why, and what to do."""
