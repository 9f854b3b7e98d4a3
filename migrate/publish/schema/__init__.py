"""What columns each table has at a place in the log, and what statements make of that."""
