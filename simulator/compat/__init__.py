"""The semantics of published simulators, for comparing results with theirs. Nothing else builds on this."""
