"""The truth of simulated jobs: how fast they train, and what they know of themselves."""
