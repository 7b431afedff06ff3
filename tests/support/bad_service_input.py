"""What the service is given that it does not accept, each with the beginning of the one sentence that says so."""

from __future__ import annotations

import gzip
import hashlib
import socket
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from coadapt.core.errors import StoreError
from coadapt.core.package_form import MOST_ENTRIES
from coadapt.executor.protocol.wire import EVENTS, LENGTH_BYTES, MESSAGE_BYTES, MessageError, Wire, decoded
from coadapt.scheduler.store import opening
from coadapt.scheduler.store.store import Store

from tests.support.api import JOB, SPEC, Api
from tests.support.packages import entry, name_of, packed
from tests.support.stores import raw

KEY = {"Idempotency-Key": "k"}
DAY_S = 86_400.0
FORGED = "coadapt_" + "0" * 12 + "_" + "x" * 43
NO_TAR = "package: it is not a tar file compressed by gzip"


@dataclass(frozen=True)
class Place:
    """A service with users, and a folder for files."""

    api: Api
    folder: Path


Way = Callable[[Place], str]


def asked(method: str, path: str, user: str | None = "ann", **more: Any) -> Way:
    """Ask the API for something, and return what it says of it. {job} is a job of ann's."""

    def way(place: Place) -> str:
        answer = place.api.ask(method, path.format(job=place.api.job("ann")), user, **more)
        told = answer.json()
        return str(told["detail"]) if answer.status_code >= 400 else f"taken: {answer.status_code}"

    return way


def submitted(spec: Mapping[str, Any] | None = None, **more: Any) -> Way:
    """Submit a job that is changed in some fields."""
    body = {**JOB, "spec": {**SPEC, **(spec or {})}}
    return asked("POST", "/v1/jobs", headers=KEY, **({"json": body} | more))


def webhook(**told: Any) -> Way:
    """Add a webhook that is changed in some fields."""
    return asked("POST", "/v1/webhooks", json={"name": "w", "url": "https://x.example.com/", **told})


def token(user: str, change: Callable[[Place], None]) -> Way:
    """Ask with a token to which something happens before."""

    def way(place: Place) -> str:
        change(place)
        place.api.app.state.context.forget_tokens()
        return asked("GET", "/v1/me", user)(place)

    return way


def _expires(place: Place) -> None:
    place.api.tokens["ann"] = place.api.service.issue_token("ann", "short", 1.0)["token"]
    place.api.world.clock.forward(2 * DAY_S)


def _is_revoked(place: Place) -> None:
    place.api.service.revoke_token(place.api.tokens["bob"].split("_")[1])


def again_with_another_body(place: Place) -> str:
    """Use a key for two jobs."""
    submitted()(place)
    return submitted({"args": ["x"]})(place)


def stale_cursor(place: Place) -> str:
    """Use a cursor of one query for another."""
    for at in range(3):
        place.api.job("ann", f"j{at}")
    cursor = place.api.ask("GET", "/v1/jobs", "ann", params={"limit": 1}).json()["next"]
    return asked("GET", "/v1/jobs", params={"cursor": cursor, "name": "j1"})(place)


def package(content: Callable[[], bytes], name: str | None = None) -> Way:
    """Put a package."""

    def way(place: Place) -> str:
        sent = content()
        return asked("PUT", f"/v1/packages/{name or name_of(sent)}", content=sent)(place)

    return way


def drained_twice(place: Place) -> str:
    """Drain a node again. It is no error, and changes nothing."""
    for _ in range(2):
        answer = place.api.ask("POST", "/v1/nodes/t4-000/drain", "ops", json={"why": "a fan"}).json()
    return f"{'changed' if answer['changed'] else 'unchanged'}: {answer['told']}"


def opened(prepare: Callable[[Path], Path | str]) -> Way:
    """Open a store that is not as it should be."""

    def way(place: Place) -> str:
        where = prepare(place.folder)
        try:
            with patch("coadapt.scheduler.store.lock.WAIT_S", 0.0):
                Store(where).close()
        except StoreError as refused:
            return str(refused).replace(str(place.folder), "{dir}")
        return "taken"

    return way


def _of_a_later_version(folder: Path) -> Path:
    Store(folder / "jobs.sqlite").close()
    raw(folder / "jobs.sqlite", "update alembic_version set version_num='9999'")
    return folder / "jobs.sqlite"


def on_a_network(place: Place) -> str:
    """Open a store on a network file system."""
    with patch.object(opening, "network_file_system", lambda path: "nfs4"):
        return opened(lambda folder: folder / "jobs.sqlite")(place)


def held_by_another(place: Place) -> str:
    """Open a store that is open."""
    first = Store(place.folder / "jobs.sqlite")
    try:
        return opened(lambda folder: folder / "jobs.sqlite")(place)
    finally:
        first.close()


def _without_rights(folder: Path) -> Path:
    (folder / "jobs.sqlite").mkdir()  # as root every file may be read
    return folder / "jobs.sqlite"


def event(text: bytes) -> Way:
    """Have a training process say something to its worker."""

    def way(place: Place) -> str:
        try:
            return f"taken: {decoded(text, EVENTS, 'j-1')}"
        except MessageError as refused:
            return str(refused)

    return way


def announced(place: Place) -> str:
    """Announce a message of a GiB."""
    ours, theirs = socket.socketpair()
    wire = Wire(ours.detach(), EVENTS, "j-1")
    with theirs:
        theirs.sendall((1 << 30).to_bytes(LENGTH_BYTES, "big"))
        try:
            return f"taken: {wire.receive()}"
        except MessageError as refused:
            return str(refused)
        finally:
            wire.close()


def _huge() -> bytes:
    header = entry("zeros", 10 << 30).tobuf(tarfile.PAX_FORMAT)

    return gzip.compress(header + bytes(1 << 20))


BAD_SERVICE_INPUT: list[tuple[str, Way, str]] = [
    (
        "a webhook in the clear",
        webhook(url="http://x.example.com/"),
        "url: http://x.example.com/… is not encrypted; ",
    ),
    (
        "a webhook with a password",
        webhook(url="https://a:b@x.example.com/"),
        "url: https://x.example.com/… has a user ",
    ),
    ("a webhook of an unknown event", webhook(events=["job.exploded"]), "events: job.exploded is not one of "),
    (
        "a job that tells a webhook that is not there",
        submitted({"notify": {"to": ["nowhere"]}}),
        "notify.to: ann has no webhook nowhere; `coadapt webhook add nowhere URL` makes one",
    ),
    (
        "a job that tells a metadata service",
        submitted({"notify": {"to": ["https://[fd00:ec2::254]/"]}}),
        "notify.to: ",
    ),
    ("no token", asked("GET", "/v1/me", None), "no token: send `Authorization: Bearer TOKEN`"),
    (
        "a malformed token",
        asked("GET", "/v1/me", None, headers={"Authorization": "Bearer abc"}),
        "the token is malformed; one looks like coadapt_ID_SECRET",
    ),
    (
        "a token that nobody has made",
        asked("GET", "/v1/me", None, headers={"Authorization": f"Bearer {FORGED}"}),
        "the token is unknown; `coadapt login URL` takes a new one",
    ),
    ("an expired token", token("ann", _expires), "the token "),
    ("a revoked token", token("bob", _is_revoked), "the token "),
    ("a role that is too low", asked("GET", "/v1/users"), "ann has the role user, and this needs operator"),
    ("a job of somebody else", asked("GET", "/v1/jobs/{job}", "bob"), "no job a-1"),
    ("a body that is no JSON", submitted(content=b"{"), "the body is not JSON: "),
    ("a body of 10 MiB", submitted(content=b" " * (10 << 20)), "the body is larger than 1048576 bytes"),
    (
        "a body of 65 levels",
        submitted(content=b"[" * 65 + b"]" * 65),
        "the body has more than 64 levels of lists and objects",
    ),
    (
        "NaN in a body",
        submitted(content=b'{"spec": {"grace_s": NaN}}'),
        "the body has NaN in it, which is no JSON number",
    ),
    ("an unknown field", submitted(json={**JOB, "x": 1}), "x: unknown field"),
    ("a wrong type", submitted({"grace_s": "x"}), "spec.grace_s: x is not a number"),
    (
        "a key with another body",
        again_with_another_body,
        "Idempotency-Key: a-2 was submitted with it, and this job differs in args",
    ),
    (
        "a forged cursor",
        asked("GET", "/v1/jobs", params={"cursor": "!"}),
        "cursor: this is not the `next` of an answer to the same query",
    ),
    ("a stale cursor", stale_cursor, "cursor: this is not the `next` of an answer to the same query"),
    (
        "a package under another name",
        package(packed, hashlib.sha256(b"another").hexdigest()),
        f"package: {hashlib.sha256(b'another').hexdigest()} is not the SHA-256 of its content",
    ),
    ("a package that is cut off", package(lambda: packed([entry("a", 99_999)], 0)[:50_000]), NO_TAR),
    ("a package that is no archive", package(lambda: b"PK\x03\x04 something else"), NO_TAR),
    ("a package of 10 GiB", package(_huge), "package: it has more than "),
    ("a package with ../x", package(lambda: packed([entry("../x")])), "package: its entry ../x is outside"),
    ("a package with /etc/x", package(lambda: packed([entry("/etc/x")])), "package: its entry /etc/x is outside"),
    (
        "a package with a device",
        package(lambda: packed([entry("d", type=tarfile.CHRTYPE)])),
        "package: its entry d is neither a plain file nor a folder",
    ),
    (
        "a package of more than 100,000 entries",
        package(lambda: packed(entry(f"{n}") for n in range(MOST_ENTRIES + 1))),
        f"package: it has more than {MOST_ENTRIES} files and folders",
    ),
    (
        "a script outside of its folder",
        submitted({"script": "/etc/passwd"}),
        "script: /etc/passwd is outside the working folder",
    ),
    ("GPUs in env", submitted({"env": {"CUDA_VISIBLE_DEVICES": "0"}}), "env.CUDA_VISIBLE_DEVICES: "),
    ("GPUs of AMD in env", submitted({"env": {"HIP_VISIBLE_DEVICES": "0"}}), "env.HIP_VISIBLE_DEVICES: "),
    ("Ray's variables in env", submitted({"env": {"RAY_ADDRESS": "x"}}), "env.RAY_ADDRESS: "),
    ("ranks in env", submitted({"env": {"GROUP_RANK": "1"}}), "env.GROUP_RANK: "),
    ("many arguments", submitted({"args": ["x"] * 20_000}), "args: has 20000 entries; at most 10000 are accepted"),
    (
        "a checkpoint URL of another scheme",
        submitted({"training": {"checkpoint": {"url": "http://x/y"}}}),
        "training.checkpoint.url: ",
    ),
    (
        "GPUs in env of a command",
        submitted({"script": "", "command": ["make"], "env": {"CUDA_VISIBLE_DEVICES": "0"}}),
        "env.CUDA_VISIBLE_DEVICES: ",
    ),
    (
        "output of rank 99",
        asked("GET", "/v1/jobs/{job}/logs", params={"rank": "99"}),
        "rank: 99 is more than a-1 can have",
    ),
    ("a negative tail", asked("GET", "/v1/jobs/{job}/logs", params={"tail": "-1"}), "tail: -1 is not a number of"),
    (
        "a node that is unknown",
        asked("POST", "/v1/nodes/m7/drain", "ops", json={}),
        "no node m7; `coadapt node list` shows all",
    ),
    ("a node that is drained twice", drained_twice, "unchanged: "),
    (
        "a deadline in the past",
        asked("POST", "/v1/nodes/t4-000/drain", "ops", json={"deadline_s": -5}),
        "deadline_s: -5 s from now is in the past; it is accepted above 0",
    ),
    ("a store of a later version", opened(_of_a_later_version), "{dir}/jobs.sqlite: "),
    ("a store on NFS", on_a_network, "{dir}/jobs.sqlite: the store is on a network file system (nfs4)"),
    ("a store that is held", held_by_another, "{dir}/jobs.sqlite: the store is held by process "),
    ("a store that cannot be opened", opened(_without_rights), "{dir}/jobs.sqlite: the store cannot be opened"),
    (
        "a PostgreSQL that is not there",
        opened(lambda folder: "postgresql+psycopg://ann:secret@127.0.0.1:1/none"),
        "postgresql+psycopg://ann:***@127.0.0.1:1/none: the store cannot be",
    ),
    (
        "a message of a GiB",
        announced,
        f"a message of {1 << 30} bytes was announced; 1 to {MESSAGE_BYTES} are taken",
    ),
    ("a message that is cut", event(b'{"job": "j-1", "kind": "Heart'), "a message is no JSON"),
    (
        "an event of another job",
        event(b'{"job": "j-2", "kind": "Heartbeat", "fields": {"generation": 1, "steps": 2}}'),
        "job: a message is of job \"j-2\", and this is job 'j-1'",
    ),
    ("an unknown setting", asked("PATCH", "/v1/settings", "ops", json={"speed": 1}), "speed: "),
    (
        "a setting out of range",
        asked("PATCH", "/v1/settings", "ops", json={"round_interval_s": -1}),
        "round_interval_s: ",
    ),
    (
        "a setting that names a place",
        asked("PATCH", "/v1/settings", "ops", json={"state_dir": "/x"}),
        "state_dir: ",
    ),
]


def answer(way: Way, folder: Path) -> str:
    """Return what is said of one of them, by a service of its own in a folder."""
    api = Api(folder / "service")
    (folder / "files").mkdir()
    try:
        return way(Place(api, folder / "files")).replace(str(folder / "files"), "{dir}")
    finally:
        api.world.store.close()
