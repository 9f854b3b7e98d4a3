"""The consumed prefix becomes the group's committed offsets, and old records are cleaned up.

Others use `committer.Committer` and `cleanup.Cleanup`.
"""
