"""The durable store of the service: what is known of jobs is on disk before anyone acts on it."""
