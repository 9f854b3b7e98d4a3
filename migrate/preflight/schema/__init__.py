"""Whether the tables fit: definitions, keys, rules, triggers, and a trial of what init would make.

Others use `tables`, `routing`, `existing`, `shards` and `trial`.
"""
