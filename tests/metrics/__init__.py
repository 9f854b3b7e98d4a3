"""What processes count, and where they say it."""
