"""Print the plain PyTorch twin of an example: `python examples/plain.py examples/rigid/train.py`.

The twin is the same script without coadapt. The lines that name coadapt change so:

* `coadapt.device()` becomes torch's own way to say "the GPU, if there is one".
* `coadapt.epochs(n)` becomes `range(n)`.
* `coadapt.hyperparameters(lr=0.1)` becomes `SimpleNamespace(lr=0.1)`, and `coadapt.width(48)` the number.
* Every other line (`import`, `prepare`, `report`) is removed.
"""

import re
import sys
from pathlib import Path

DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'


NAMES = '__import__("types").SimpleNamespace('


def coadapt_lines(source: str) -> list[str]:
    """Return the lines that a plain script has to change."""
    return [line for line in source.splitlines() if "coadapt." in line or line == "import coadapt"]


def plain(source: str) -> str:
    """Return the script without coadapt."""
    changed = set(coadapt_lines(source))
    lines = []
    for line in source.splitlines():
        twin = line.replace("coadapt.device()", DEVICE).replace("coadapt.epochs(", "range(")
        twin = re.sub(r"coadapt\.width\((\d+)\)", r"\1", twin.replace("coadapt.hyperparameters(", NAMES))
        if line not in changed or twin != line:
            lines.append(twin)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(plain(Path(sys.argv[1]).read_text()), end="")
