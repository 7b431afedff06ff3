"""Models whose replica is several processes, each of which holds shards of it."""
