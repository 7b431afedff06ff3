"""What a training run is made of: the prepared objects, and their state in memory and on disk."""
