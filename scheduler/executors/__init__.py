"""Executors of jobs, as the scheduler sees them."""
