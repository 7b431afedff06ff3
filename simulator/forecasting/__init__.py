"""Worlds that begin from the live state of a cluster, and go on under the same policy."""
