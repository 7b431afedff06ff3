"""Allocation policies, one file each."""
