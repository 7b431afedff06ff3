"""The contract of a policy: the round it sees, and the plan it returns."""
