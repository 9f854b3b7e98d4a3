"""ShardingSphere's routing: from a table's rule and a row's values to its shard table.

Others use `rule.build_rule`, `rule.TableRule` and `columns.column_types`.
"""
