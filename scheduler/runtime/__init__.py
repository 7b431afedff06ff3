"""What keeps the scheduler running: its clock, its supervised loop, and what it does while the store fails."""
