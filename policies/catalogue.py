"""All policies by name. Importing this module registers every one of them."""

from . import coadapt, fifo, gavel, las, max_min, pollux, qssf, shockwave, sia, sjf, srtf, themis
from .registry import make_policy, policy_class, policy_names, register

__all__ = [
    "coadapt",
    "fifo",
    "gavel",
    "las",
    "make_policy",
    "max_min",
    "policy_class",
    "policy_names",
    "pollux",
    "qssf",
    "register",
    "shockwave",
    "sia",
    "sjf",
    "srtf",
    "themis",
]
