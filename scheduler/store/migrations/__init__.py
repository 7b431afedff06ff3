"""How stores of one version become stores of the next, and of the one before."""
