"""What teams have used, which leases of jobs run, and what follows for a round; pure."""
