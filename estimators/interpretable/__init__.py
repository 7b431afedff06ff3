"""Models that a person can read, correct and trust: their explanation is the model."""
