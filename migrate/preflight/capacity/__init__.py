"""Whether time, space and sizes suffice: the copy's volume, retention, disks, rows too large for a message.

Others use `volume.Volume`, `space`, `retention`, `row_sizes` and `loading`.
"""
