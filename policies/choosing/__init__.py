"""Choosing configurations: which ones a job may use, what they are worth, and the round as one program."""
