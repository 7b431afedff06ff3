"""Which jobs get leases, in which shape and when: each job takes at most one option, on cells by slot of time."""
