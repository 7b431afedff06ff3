"""Figures, files and pictures of simulated runs."""
