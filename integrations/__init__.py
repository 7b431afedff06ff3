"""Elastic training for frameworks that own the training loop; each is an extra of the package."""
