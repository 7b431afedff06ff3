"""Helpers beside the tests (`training_group`, …) are importable by their file name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
