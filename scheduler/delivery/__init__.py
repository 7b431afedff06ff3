"""Events out: who is told of what, signed, tried again until it is acknowledged, and beside rounds."""
