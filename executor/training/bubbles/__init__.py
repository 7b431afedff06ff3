"""Bubbles of a pipeline, lent to a guest: its layers run while the owner of the GPU waits, and never beside it."""
