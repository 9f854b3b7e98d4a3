"""The re-sharding demo: sources that are sharded themselves become twice as many shards, live, with a cutover and a rollback."""
