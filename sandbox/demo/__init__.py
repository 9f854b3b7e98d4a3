"""The demo: a real database moved live to a sharded target, and proven equal."""
