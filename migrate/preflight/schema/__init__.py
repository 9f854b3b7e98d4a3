"""Whether the tables fit: definitions, keys, rules, triggers, and a trial of what init would make.

Others use `checks`, `existing`, `triggers`, `cascades`, `trial` and `scratch`.
"""
