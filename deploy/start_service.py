"""Starting and ending the scheduler and its API on a cluster that Ray runs on."""

from __future__ import annotations

import re
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..client.client import RETRY_S, NoClusterError
from ..client.cluster_record import ClusterRecord
from ..client.login import write_secret
from ..client.user_name import user_name
from ..core.api_settings import DEFAULT_PORT, ApiSettings
from ..core.errors import StoreError
from ..core.identity import Role
from ..core.service_names import API_NAME, NAMESPACE, SERVICE_NAME
from ..core.settings import Settings
from ..core.settings_change import differing
from ..executor.light_actor import light
from .ray_connection import connected_ray

ANSWER_S = 60.0
_REFUSED = re.compile(r"StoreError: (.+)")  # how Ray tells what a service raised when it started


class SettingsError(RuntimeError):
    """A scheduler runs already, and not as asked for; one sentence for a person."""


def start_service(
    record: ClusterRecord,
    settings: Settings,
    tell: Callable[[str], None] = lambda text: None,
    rounds: bool = True,
    scheduler: type | None = None,
) -> ClusterRecord:
    """Start scheduler and API on a cluster unless they run, and wait until every node started with it is leased.

    Return the record with the URL of the API, and with the file of this user's token.

    Args:
        tell: called with the line that says that kernels are compiled.
        rounds: whether to wait also for the solver's kernels, which the first start after an install compiles.
            Else jobs wait for their first round.
        scheduler: the class of the scheduler's actor; by default `SchedulerService`.

    Raises: ValueError for an unknown policy or option, NoClusterError, SettingsError if it already runs with other
        settings.
    """
    # What the service needs is not loaded for the other verbs: the solver alone takes half a second.
    from ..policies.catalogue import live_policy

    live_policy(settings.policy, **settings.policy_options)
    ray = connected_ray(record)
    from ..api.serve import ApiActor
    from ..policies.warm_up import COMPILING
    from ..scheduler.service import SchedulerService

    on_head = any(node["Labels"].get("role") == "head" for node in ray.nodes() if node["Alive"])

    def begin(kind: type, name: str, concurrency: int, *arguments: object) -> Any:
        options: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
            "max_restarts": -1,
            "max_task_retries": -1,
            "num_cpus": 0,
            "max_concurrency": concurrency,
            "label_selector": {"role": "head"} if on_head else {},
        }
        return ray.remote(light(kind)).options(**options).remote(*arguments)

    service = begin(scheduler or SchedulerService, SERVICE_NAME, 32, settings, uuid.uuid4().hex)

    def begin_api() -> Any:
        arguments = settings.api, port_of(settings.api), settings.log_format
        return begin(ApiActor, API_NAME, 4, *arguments, str(Path(settings.state_dir) / "studies"))

    api = begin_api()

    def ask(actor: Any, method: str, *arguments: object) -> Any:
        try:
            return ray.get(getattr(actor, method).remote(*arguments), timeout=ANSWER_S)
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except ray.exceptions.RayActorError as error:
            if (refused := _REFUSED.search(str(error))) is not None:
                raise StoreError(refused[1].strip()) from None
            why = str(error).strip().splitlines()[-1].strip()
            raise NoClusterError(f"the scheduler did not start: {why}") from None
        except ray.exceptions.GetTimeoutError:
            raise NoClusterError(f"the scheduler does not answer in {ANSWER_S:.0f} s") from None

    running = Settings.model_validate(ask(service, "settings"))
    if names := _contradicted(running, settings, ask(service, "settings_rows")):
        raise SettingsError(_difference(running, settings, names))
    deadline, told = time.monotonic() + RETRY_S, False
    while True:
        compiling = ask(service, "compiling")
        if compiling and not told:
            tell(COMPILING)
            told = True
        answers = ask(service, "ping") or (compiling and not rounds)
        if answers and _nodes_there(ask(service, "cluster")) >= len(record.nodes):
            break
        if compiling:
            deadline = time.monotonic() + RETRY_S
        if time.monotonic() > deadline:
            raise NoClusterError(f"the nodes of the cluster could not be leased in {RETRY_S:.0f} s")
        time.sleep(0.05)
    try:
        port = ask(api, "port")
    except NoClusterError:
        if settings.api.port is not None:
            raise
        _end(ray, api)  # somebody else has taken the port since it was looked for
        port = ask(begin_api(), "port")
    url = f"{settings.api.scheme}://{settings.api.reached_at}:{port}"
    path = Path(settings.state_dir) / "api_token"
    _give_token(lambda method, *arguments: ask(service, method, *arguments), path)
    return replace(record, url=url, api_token_path=str(path), tls_cert=settings.api.tls_cert or "")


def _end(ray: Any, api: Any) -> None:
    """End an API that could not start, and wait until its name is free."""
    ray.kill(api, no_restart=True)
    deadline = time.monotonic() + ANSWER_S
    while _actor(ray, API_NAME) is not None and time.monotonic() < deadline:
        time.sleep(0.05)  # nobody tells when it has gone


def _give_token(ask: Callable[..., Any], path: Path) -> None:
    """See to it that a file holds a token of this user, who operates the cluster."""
    with suppress(OSError):
        if isinstance(ask("authenticate", path.read_text().strip()), dict):
            return
    user = user_name() or "operator"
    ask("put_user", user, Role.OPERATOR.value)
    write_secret(path, ask("issue_token", user, "coadapt up")["token"])


def port_of(settings: ApiSettings) -> int:
    """Return the port to listen on: the one that is set, else the usual one or one that is free."""
    if settings.port is not None:
        return settings.port
    for port in (DEFAULT_PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind((settings.host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return 0


def is_served(record: ClusterRecord) -> bool:
    """Return whether a scheduler runs on a cluster. Raises: NoClusterError where no cluster answers."""
    return _actor(connected_ray(record), SERVICE_NAME) is not None


def end_service(
    record: ClusterRecord,
    grace_s: float,
    *,
    keep_jobs: bool = False,
    sure: Callable[[Mapping[str, int]], None] = lambda others: None,
) -> None:
    """Let every job save and stop, and end scheduler and API. Jobs go on at the next start.

    Args:
        keep_jobs: whether jobs train on, and only scheduler and API end.
        sure: called with the active jobs of other users where there are some; it may raise.

    Raises: NoClusterError where no cluster answers, and with `keep_jobs` where no scheduler runs.
    """
    ray = connected_ray(record)
    service = _actor(ray, SERVICE_NAME)
    if service is None and keep_jobs:
        raise NoClusterError(f"no scheduler runs on the cluster at {record.address}")
    ended = (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError)
    if service is not None:
        with suppress(*ended):
            if not keep_jobs and (others := ray.get(service.others.remote(user_name()), timeout=ANSWER_S)):
                sure(others)
            ray.get(service.shutdown.remote(grace_s, keep_jobs=keep_jobs), timeout=2 * grace_s + 10)
    for actor in (service, _actor(ray, API_NAME)):
        if actor is not None:
            ray.kill(actor, no_restart=True)
    ray.shutdown()


def _actor(ray: Any, name: str) -> Any | None:
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def _nodes_there(cluster: Mapping[str, Any]) -> int:
    """Return how many nodes are leased, or known to be away."""
    return len(cluster["nodes"]) + len(cluster["asleep"])


def _contradicted(running: Settings, asked: Settings, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what was asked for and is not so. What an operator has changed counts where nothing was asked for."""
    default = Settings(state_dir=asked.state_dir)
    later = {row["name"] for row in rows if row["changed"]}
    names = differing(running, asked)
    return [name for name in names if name not in later or getattr(asked, name) != getattr(default, name)]


def _difference(running: Settings, asked: Settings, names: Sequence[str]) -> str:
    have, want = running.model_dump(), asked.model_dump()
    fields = ", ".join(f"{name} {have[name]!r} (not {want[name]!r})" for name in names)
    return (
        f"a scheduler runs there already, with {fields}; `coadapt settings set` changes most, and `coadapt down` "
        "and up again all: jobs go on"
    )
