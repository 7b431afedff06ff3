"""Rounds in virtual time."""
