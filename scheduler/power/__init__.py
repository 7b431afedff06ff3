"""Powers machines off and on: states of machines, what may be done to them, and who does it."""
