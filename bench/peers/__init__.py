"""What people copy tables with otherwise. Each writes the source's `orders` into one table of the target."""
