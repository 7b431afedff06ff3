"""Backward passes, gradients and their noise, learning rates and optimizer steps."""
