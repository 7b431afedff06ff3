"""What is true of simulated jobs: how fast they train, and what they know of themselves."""
