"""One module a state table; `database` opens it and brings it to the newest version."""
