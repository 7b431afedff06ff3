"""Chooses the options of a policy by replaying a trace."""
