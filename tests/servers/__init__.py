"""Each pair of servers that people have: types, stream, copy, verification, failover, cutover and way back."""
