"""A deadline that is met because a best-effort job waited, on one emulated node.

`make demo-deadlines`, or `python -m examples.demo_deadlines`.
"""
