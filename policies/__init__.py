"""Allocation policies, one file each; `catalogue.py` has them all by name."""
