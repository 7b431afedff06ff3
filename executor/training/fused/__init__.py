"""Several trials of one script trained as one: parameters are stacked, and each operation runs for all at once."""
