"""Comparing sources and targets: checksums, rechecks, repair, the certificate, and the scheduled check.

Others use `table_check.TableCheck`, `chunk_check.CheckJob`, `lookup.look_up`, `certificate`, `quick_modes.Mode` and
`scheduled.ScheduledCheck`.
"""
