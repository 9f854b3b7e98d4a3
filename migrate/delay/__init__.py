"""What has to wait: deletes that found no row come back when due, and markers of foreign keys go out.

Others use `requeue.Requeue`, `lost_deletes.LostDeletes` and `markers.Markers`.
"""
