"""Buys nodes and gives them up: what one more is worth, what is chosen, what becomes of requests. Pure."""
