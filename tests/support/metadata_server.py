"""The metadata services of AWS, GCP and Azure on loopback: what each tells a machine that is about to go."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from coadapt.core.cloud import Cloud

TOKEN = "a-token"


@dataclass
class MetadataServer:
    """Answers for one cloud, at `/MACHINE/…` for each machine.

    going_s: by machine, when it goes by the wall clock; one that is absent stays.
    asked: paths that were asked for.
    """

    cloud: Cloud
    url: str = ""
    going_s: dict[str, float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, method: str, machine: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """Return status and body, as the cloud would. What belongs to another cloud is not there."""
        going_s = self.going_s.get(machine)
        if self.cloud is Cloud.AWS:
            if path == "/latest/api/token":
                ttl = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
                return (200, TOKEN) if method == "PUT" and ttl.isdecimal() else (400, "")
            if path == "/latest/meta-data/spot/instance-action":
                if headers.get("x-aws-ec2-metadata-token") != TOKEN:
                    return 401, ""
                return (404, "") if going_s is None else (200, json.dumps(aws_action(going_s)))
        if self.cloud is Cloud.GCP and path == "/computeMetadata/v1/instance/preempted":
            if headers.get("metadata-flavor") != "Google":
                return 403, ""
            return 200, "FALSE" if going_s is None else "TRUE"
        if self.cloud is Cloud.AZURE and headers.get("metadata") == "true":
            if path.startswith("/metadata/instance/compute/name"):
                return 200, machine
            if path.startswith("/metadata/scheduledevents?api-version="):
                events = [azure_event(name, at_s) for name, at_s in self.going_s.items()]
                return 200, json.dumps({"DocumentIncarnation": 1, "Events": events})
        return 404, ""


def aws_action(going_s: float) -> dict[str, str]:
    return {"action": "terminate", "time": datetime.fromtimestamp(going_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def azure_event(machine: str, going_s: float) -> dict[str, object]:
    return {
        "EventId": f"event-{machine}",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": [machine],
        "EventStatus": "Scheduled",
        "NotBefore": format_datetime(datetime.fromtimestamp(going_s, UTC), usegmt=True),
    }


@contextmanager
def serving(cloud: Cloud) -> Iterator[MetadataServer]:
    """Serve on loopback while the block runs. `url` has a place for the name of the machine."""
    found = MetadataServer(cloud)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, machine, rest = self.path.split("/", 2)
            found.asked.append(f"/{rest}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body = found.answer(self.command, machine, f"/{rest}", headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}/{{machine}}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def soon(seconds: float) -> float:
    """Return a moment so many seconds from now, whole as clouds tell it."""
    return float(round(time.time() + seconds))
