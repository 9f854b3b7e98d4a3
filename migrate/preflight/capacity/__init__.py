"""Whether time, space and sizes suffice: the copy's volume, retention, disks, rows too large for a message.

Others use `checks`, `volume.Volume`, `space.Disk`, `row_sizes.octets` and `copied`.
"""
