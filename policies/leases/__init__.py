"""Jobs that run by leases towards deadlines: when they are due, what they need, and who is served."""
