"""Hooks that are told of rounds and changes, and learn or keep something. They decide nothing."""
