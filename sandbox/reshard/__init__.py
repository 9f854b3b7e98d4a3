"""The re-sharding demo: sharded sources become twice as many shards, live, with a cutover and a rollback."""
