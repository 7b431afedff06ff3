"""A process that ends at its first question."""

import sys

sys.stdin.buffer.readline()
sys.exit(3)
