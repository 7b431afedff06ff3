"""Inside the user's process: the API of a training script and all that stands behind it. No Ray."""
