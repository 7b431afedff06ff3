"""Allocation policies, one file each, by name."""

from . import fifo, las, pollux, sia, sjf, srtf, themis
from .registry import make_policy, policy_names, register

__all__ = ["fifo", "las", "make_policy", "policy_names", "pollux", "register", "sia", "sjf", "srtf", "themis"]
