"""Traces and clusters, read from files."""
