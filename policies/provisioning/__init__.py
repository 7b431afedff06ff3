"""Which CPUs and how much memory jobs of a fixed size get, and on which nodes: one file per mechanism."""
