"""Run the story on an emulated node, and say what was seen."""

from __future__ import annotations

import sys
import tempfile
import time

from coadapt.client.client import Client
from coadapt.client.cluster_record import LocalClusterError
from coadapt.core.deadline_view import in_words
from coadapt.core.settings import Settings
from coadapt.core.wording import n_gpus
from coadapt.deploy import local_cluster

from .story import CLUSTER, MONDAY, OPTIONS, ROUND_S, SWEEP, Seen

CAP_S, LOOK_S = 600.0, 0.5


def play(client: Client, began_s: float) -> Seen:
    """Submit both jobs, the one with a deadline once the other one trains, and look until all is seen."""
    seen, told = Seen(), ""
    sweep, monday = client.submit(SWEEP), ""
    say(began_s, f"{sweep} is submitted: best effort on both GPUs")
    while not seen.over and time.time() < began_s + CAP_S:
        rows = {row["id"]: row for row in client.list()}
        if not monday and rows[sweep]["phase"] == "running":
            monday = client.submit(MONDAY)
            say(began_s, f"{monday} is submitted, with a deadline")
            continue
        due = rows.get(monday)
        answer = None if due is None else due.get("deadline")
        line = "" if answer is None else in_words(answer, time.time())
        explained = client.explain(sweep)["lines"]
        before = len(seen.told)
        seen.rows(rows[sweep], due, line, explained)
        if len(seen.told) > before:
            say(began_s, f"{monday}: {line}")
        has = ", ".join(f"{job} has {n_gpus(row['gpus'])}" for job, row in sorted(rows.items()))
        if has != told:
            say(began_s, has)
            told = has
        time.sleep(LOOK_S)  # between two looks, up to a limit
    return seen


def say(began_s: float, text: str) -> None:
    """Print a line with the time since the beginning."""
    print(f"{time.time() - began_s:4.0f} s  {text}", flush=True)


def main() -> int:
    """Run the demo and return its exit status: 0 if all was seen."""
    print(f"starting Ray with an emulated node {CLUSTER} under unisched, with leases of 10 and 20 s", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="coadapt-demo-") as state_dir:
            settings = Settings(
                state_dir=state_dir,
                policy="unisched",
                policy_options=OPTIONS,
                round_interval_s=ROUND_S,
                restart_cost_s=3.0,
                profile_share=1.0,
            )
            with local_cluster.cluster(CLUSTER, settings=settings) as client:
                seen = play(client, time.time())
    except LocalClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; jobs and cluster have been ended", file=sys.stderr)
        return 130
    promises = seen.promises()
    for promise in promises:
        print(f"{'seen' if promise.seen else 'NOT SEEN':8}  {promise.what}: {promise.seen or ''}")
    return 0 if all(promise.seen for promise in promises) else 1


if __name__ == "__main__":
    sys.exit(main())
