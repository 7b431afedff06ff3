"""Events to a webhook whose receiver fails and goes away, while the scheduler is killed.

    python -m benchmarks.delivery [--events 10000] [--away 600] [--fails 0.3] [--kills 3] [--quiet 180]

A real Ray cluster, the real scheduler, API and sender; only the executors are stubs. Some jobs train, and events
of them are logged. The receiver is an HTTP server of its own process: it fails by a seeded lot, by an error, by a
cut or by no answer, and then listens no more for some time. The scheduler is killed with SIGKILL while events are
under way, and Ray starts it anew. Ticks are those of the scheduler's loop without rounds, as `load` has them.
* ids_missing, ids_accepted_twice, out_of_order: by what the receiver has answered with 204.
* tick_p99_ratio: of ticks while events are delivered, over those before and after, with as many events logged in
  the same time. Ticks while the receiver is away, and right after a start of the scheduler, count in neither.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from .arguments import at_least
from .harness import finish, table
from .months.house import House, house, own_folder, processes, pss_mib, settings_in
from .months.many_jobs import fill

JOBS = 100  # that train
AT_ONCE = 50  # events of one transaction
WARM_S = 20.0  # after a start of the scheduler, in which ticks are not counted
PATIENCE_S = 3600.0
ANSWER_S = 2.0  # of the setting, so that a receiver that does not answer is cut off soon
SENDER = "ray::Sender"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=at_least(100), default=10_000)
    parser.add_argument("--away", type=at_least(0), default=600, help="seconds in which the receiver is not there")
    parser.add_argument("--fails", type=float, default=0.3, help="share of requests that fail")
    parser.add_argument("--kills", type=at_least(0), default=3)
    parser.add_argument(
        "--quiet", type=at_least(10), default=180, help="seconds without webhooks, before and after"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with own_folder() as folder:
        figures = measured(folder, args.events, args.away, args.fails, args.kills, args.quiet, args.seed)
    table(
        f"{args.events:,} events; {args.fails:.0%} fail, away for {args.away} s, {args.kills} kills",
        ["", "measured"],
        [[name, value] for name, value in figures.items()],
    )
    finish("delivery", figures, f"{args.events} events, away for {args.away} s, {args.kills} kills")


def measured(
    folder: Path, events: int, away_s: float, fails: float, kills: int, quiet_s: float, seed: int
) -> dict[str, float]:
    """Return all figures of one run."""
    webhooks = {"allowed": ["127.0.0.1"], "answer_s": ANSWER_S}
    settings = settings_in(folder / "state", webhooks=webhooks)
    Path(settings.state_dir).mkdir()
    fill(settings, 0, JOBS)
    with house(settings, f"2x t4:{JOBS // 2}") as subject:
        subject.until_running(JOBS)
        time.sleep(WARM_S)  # its first ticks load what later ones have
        logged = Logged(subject)
        without = logged.ticks_while(events, quiet_s)
        receiver = Receiver(fails, seed)
        subject.client.add_webhook("bench", receiver.url, ["job.trouble"], cluster=True)
        run = Run(subject, receiver, logged, away_s, kills)
        found = run.delivered(events, quiet_s)
        subject.client.remove_webhook("bench", cluster=True)
        without += logged.ticks_while(events, quiet_s)
        accepted = receiver.accepted()
        receiver.stop()
    during = found.pop("ticks")
    return judged(accepted, run.first, events) | ticks(during, without) | found


def judged(accepted: list[dict[str, Any]], first: int, events: int) -> dict[str, float]:
    """Return what is wrong with what a receiver has accepted, in the order in which it has."""
    numbers = {int(one["text"][2:]) for one in accepted if one["text"].startswith("n ")}
    twice = sum(count > 1 for count in Counter(one["id"] for one in accepted).values())
    newest, late = dict[str, int](), 0
    for one in accepted:
        late += one["event"] <= newest.get(one["job"], -1)
        newest[one["job"]] = max(one["event"], newest.get(one["job"], -1))
    missing = len(set(range(first, first + events)) - numbers)
    return {"ids_missing": missing, "ids_accepted_twice": twice, "out_of_order": late}


def ticks(during: list[float], without: list[float]) -> dict[str, float]:
    """Return the slowest ticks with webhooks and without, in milliseconds, and their ratio."""
    one, other = (float(np.quantile(some, 0.99)) * 1e3 for some in (during, without))
    return {
        "ticks": len(during),
        "tick_p99_ms": round(one, 2),
        "tick_p99_without_ms": round(other, 2),
        "tick_p99_ratio": round(one / other, 3),
    }


class Logged:
    """Has events logged in a service, and takes the times of its ticks."""

    def __init__(self, subject: House) -> None:
        self._subject, self.next = subject, 0

    def some(self, count: int) -> None:
        """Log some events. A service that is killed meanwhile has logged all of a transaction, or none."""
        done = again(lambda: self._subject.ask("happen", self.next, count))
        if not done:
            raise RuntimeError("no job trains")
        self.next += count

    def ticks_while(self, events: int, seconds: float) -> list[float]:
        """Log events evenly over some time, and return the ticks of that time."""
        self._subject.ask("forget_times")
        began_s, first = time.monotonic(), self.next
        while (passed_s := time.monotonic() - began_s) < seconds:
            if self.next - first < events * passed_s / seconds:
                self.some(AT_ONCE)
            else:
                time.sleep(0.05)  # so often it is looked whether more are due
        return list(self._subject.ask("times")["ticks"])


class Run:
    """One delivery of many events, with a receiver that goes away and a scheduler that is killed.

    Ticks count while the receiver listens, and not within `WARM_S` of a start of the scheduler.
    """

    def __init__(self, subject: House, receiver: Receiver, logged: Logged, away_s: float, kills: int) -> None:
        self._subject, self._receiver, self._logged = subject, receiver, logged
        self._away_s, self._kills = away_s, kills
        self._ticks: list[float] = []
        self._counts_from_s: float | None = None  # None: ticks count now
        self.first = logged.next

    def delivered(self, events: int, seconds: float) -> dict[str, Any]:
        """Log events evenly over some time, and wait until all are delivered. Return what that took."""
        began_s, killed, away_s = time.monotonic(), 0, None
        self._subject.ask("forget_times")
        while (passed_s := time.monotonic() - began_s) < PATIENCE_S:
            logged = self._logged.next - self.first
            while logged < min(events * passed_s / seconds, events):
                self._logged.some(min(AT_ONCE, events - logged))
                logged = self._logged.next - self.first
            count = self._receiver.count()
            if away_s is None and self._away_s and count > events / 5:
                self._take_ticks()
                self._receiver.go(self._away_s)
                away_s, self._counts_from_s = time.monotonic(), time.monotonic() + self._away_s
            gone = away_s is not None and time.monotonic() < away_s + self._away_s
            # One kill while the receiver is away, the others while it answers.
            if killed < self._kills and (
                (gone and not killed) or count >= events * (killed + 1) / (self._kills + 1)
            ):
                self._kill()
                killed += 1
            self._look_at_ticks()
            if count >= events and self._pending() == 0:
                break
            time.sleep(0.25)  # nobody tells when the last one has arrived
        self._take_ticks()
        now_s = time.monotonic()
        return {
            "ticks": self._ticks,
            "kills": killed,
            "requests": self._receiver.requests(),
            "delivered_s": round(now_s - began_s, 1),
            "after_return_s": 0.0 if away_s is None else round(now_s - away_s - self._away_s, 1),
            "sender_mib": round(sum(map(pss_mib, processes(SENDER, self._subject.record.mark))), 1),
        }

    def _pending(self) -> float:
        return float(again(lambda: self._subject.ask("deliveries"))["pending"])

    def _look_at_ticks(self) -> None:
        if self._counts_from_s is not None and time.monotonic() > self._counts_from_s:
            again(lambda: self._subject.ask("forget_times"))
            self._counts_from_s = None

    def _take_ticks(self) -> None:
        if self._counts_from_s is None:
            self._ticks += self._subject.ask("times")["ticks"]
            self._subject.ask("forget_times")

    def _kill(self) -> None:
        """Kill the scheduler, and wait until Ray has started the next one."""
        self._take_ticks()
        pid = int(self._subject.ask("times")["pid"])
        psutil.Process(pid).kill()
        again(lambda: self._is_new(pid))
        self._counts_from_s = max(self._counts_from_s or 0.0, time.monotonic() + WARM_S)

    def _is_new(self, before: int) -> None:
        if int(self._subject.ask("times")["pid"]) == before:
            raise RuntimeError("it is still the one before")


def again(work: Callable[[], Any], patience_s: float = 120.0) -> Any:
    """Return what something returns, once the scheduler is there again."""
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except Exception:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)  # Ray makes it anew


class Receiver:
    """A receiver in a process of its own, so that it shares no interpreter with what is measured."""

    def __init__(self, fails: float, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=receive, args=(theirs, fails, seed), daemon=True)
        self._process.start()
        self.url = f"http://127.0.0.1:{self._ours.recv()}/hook"

    def _ask(self, *words: Any) -> Any:
        self._ours.send(words)
        return self._ours.recv()

    def go(self, away_s: float) -> None:
        """Let it listen no more for some time."""
        self._ask("go", away_s)

    def count(self) -> int:
        """Return how many of the numbered events it has accepted."""
        return int(self._ask("count"))

    def requests(self) -> int:
        """Return how many requests came."""
        return int(self._ask("requests"))

    def accepted(self) -> list[dict[str, Any]]:
        """Return what it has accepted, in that order."""
        found: list[dict[str, Any]] = self._ask("accepted")
        return found

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.join()


def receive(wire: Any, fails: float, seed: int) -> None:
    """Be the receiver's process: answer requests, and what is asked on the wire."""
    dice, lock, away = random.Random(seed), threading.Lock(), threading.Event()
    accepted: list[dict[str, Any]] = []
    requests = Counter[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                requests["all"] += 1
                lot, how = dice.random(), dice.choice(("error", "cut", "error", "silence"))
                good = lot >= fails and not away.is_set()
                if good:
                    accepted.append({"id": self.headers["webhook-id"], **body["data"]})
            if good:
                self.send_response(204)
                self.end_headers()
                return
            if how == "silence" and dice.random() < 0.1:
                time.sleep(2 * ANSWER_S)  # until the sender has given up
            if how == "error":
                self.send_response(500)
                self.send_header("content-length", "0")
                self.end_headers()
            self.close_connection = True

        def log_message(self, format: str, *words: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of connections that were cut."""

    def serving(port: int) -> Server:
        server = Server(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    server = serving(0)
    port = int(server.server_address[1])
    wire.send(port)

    def go(seconds: float, before: Server) -> None:
        away.set()
        before.shutdown()
        before.server_close()
        time.sleep(seconds)  # so long nobody listens
        away.clear()
        serving(port)

    while True:
        match wire.recv():
            case ("go", seconds):
                threading.Thread(target=go, args=(seconds, server), daemon=True).start()
                wire.send(None)
            case ("count",):
                with lock:
                    wire.send(len({one["text"] for one in accepted if one["text"].startswith("n ")}))
            case ("requests",):
                wire.send(requests["all"])
            case ("accepted",):
                with lock:
                    wire.send(list(accepted))


if __name__ == "__main__":
    main()
