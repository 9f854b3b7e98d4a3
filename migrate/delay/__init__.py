"""What has to wait: deletes that found no row, markers of foreign keys, keys that the update-time filter skipped.

Others use `requeue.Requeue`, `lost_deletes.LostDeletes`, `markers.Markers` and `outdated_keys.OutdatedKeys`.
"""
