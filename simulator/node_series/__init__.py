"""Sleeping nodes replayed on a series of node counts, as published: no jobs, no boots, only counts."""
