"""Published simulators' semantics, so that results can be held against theirs. Nothing else builds on this."""
