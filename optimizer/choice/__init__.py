"""Rows that each pick at most one column of what fits: solved by prices, from where the last round ended."""
