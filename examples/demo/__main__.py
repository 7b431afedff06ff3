"""Run the demo, say what was seen, and write `out/demo.png`, `out/demo.json` and `out/demo.jsonl` (the trace)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from coadapt.cli import show
from coadapt.client.cluster_record import LocalClusterError
from coadapt.core import json_numbers

from . import carried, cast, stage, summary
from .view import View

OUT = Path(__file__).resolve().parents[2] / "out"


def main() -> int:
    """Run the demo and return its exit status.

    0: all was seen. 1: something was not, or Ray did not start. 130: interrupted.
    """
    began_s = time.time()
    cores = carried.cores()
    pace = cast.pace(cores)
    slower = "" if pace == 1 else f", so the GPUs are {1 / pace:.1f} times slower than else"
    print(f"this machine carries {cores:.1f} cores' worth of work beside what it does already{slower}")
    print(f"starting Ray with emulated nodes {stage.CLUSTER}: CPUs at the pace of their GPU type", flush=True)
    try:
        with View() as view:
            ran = stage.play(pace, view.update, began_s + stage.CAP_S)
    except LocalClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; jobs and cluster have been ended", file=sys.stderr)
        return 130
    OUT.mkdir(exist_ok=True)
    show.console().print(summary.jobs(ran.rows, ran.timeline))
    summary.picture(ran.rows, ran.timeline, ran.started_s, stage.CLUSTER, OUT / "demo.png")
    (OUT / "demo.jsonl").write_text("".join(f"{line}\n" for line in ran.trace))
    for text in filter(None, ran.tracebacks):
        print(text)
    for promise in ran.promises:
        print(f"{'seen' if promise.seen else 'NOT SEEN':8}  {promise.what}: {promise.seen or ''}")
    for row in ran.unfinished:
        held = f", {show.progress(row)} done" if row["started_s"] else ""
        print(f"{row['id']} has not ended in {stage.CAP_S / 60:.0f} minutes: {row['status']}{held}")
    kept = all(promise.seen for promise in ran.promises) and not ran.unfinished
    told = {
        "jobs": ran.rows,
        "at_target": [row["id"] for row in ran.rows if cast.reached(ran.specs[row["id"]], row)],
        "promises": {promise.what: promise.seen for promise in ran.promises},
        "timeline": ran.timeline,
        "cores": round(cores, 2),
        "wall_s": round(time.time() - began_s, 1),
    }
    (OUT / "demo.json").write_text(json_numbers.dumps(told, indent=1))
    print(f"{show.duration(told['wall_s'])}; picture: {OUT / 'demo.png'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
