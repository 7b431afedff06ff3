"""A program that saves on SIGTERM and goes on from there, and writes down each step that it makes. No coadapt."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    folder, steps, step_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    rank, world = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
    saved = folder / "saved"
    step = int(saved.read_text()) if saved.exists() else 0
    stop: list[int] = []
    if "ignore" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
    print(f"rank {rank} of {world} from step {step}", flush=True)
    while step < steps:
        time.sleep(step_s / world)
        step += 1
        if "fail" in sys.argv and step == 3:
            raise ArithmeticError("the program's own mistake")
        if rank == "0":
            with (folder / "steps").open("a") as file:
                file.write(f"{step}\n")
            with open("status.jsonl", "a") as file:
                file.write(json.dumps({"step": step, "steps": steps, "loss": 1 / step}) + "\n")
            if stop:
                saved.write_text(str(step))
        if stop:
            return


if __name__ == "__main__":
    main()
