"""Serves the app: in a thread of its own, and in a Ray actor beside the scheduler's."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..core.api_settings import ApiSettings
from ..core.errors import StateError
from ..core.logs import LogFormat, write_logs
from ..core.service_names import NAMESPACE, SERVICE_NAME
from .app import make_app
from .study_actors import StudiesOnRay

log = logging.getLogger(__name__)

BIND_TRIES, BIND_S = 50, 0.2  # while the process before it still has the port
CONNECTIONS = 1000  # at once; more are refused


class Server:
    """An app that is served by a thread until it is stopped.

    Raises: OSError if the port cannot be had.
    """

    def __init__(self, app: FastAPI, settings: ApiSettings, port: int) -> None:
        self._socket = _bound(settings.host, port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=2,
            server_header=False,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._socket]))

    def stop(self) -> None:
        """End it, with what it still answers."""
        self._server.should_exit = True
        self._thread.join(10)


def _bound(host: str, port: int) -> socket.socket:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    for at in range(BIND_TRIES):
        listening = socket.socket(kind, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError:
            listening.close()
            if at == BIND_TRIES - 1:
                raise
            threading.Event().wait(BIND_S)  # nobody tells when a port is free
            continue
        listening.listen(512)
        return listening
    raise AssertionError("the last try returns or raises")


class RayScheduler:
    """Calls the scheduler's actor, and waits while it starts again."""

    def __init__(self) -> None:
        self._handle: Any = None

    async def call(self, method: str, *args: Any) -> Any:
        """Return what a method of a desk returns. Raises: what it raises; StateError where it is away."""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        try:
            if self._handle is None:
                self._handle = ray.get_actor(SERVICE_NAME, namespace=NAMESPACE)
            reference = self._handle.ask.remote(method, args)
            return await asyncio.wrap_future(reference.future())
        except RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, Exception) else error from None
        except (RayActorError, ValueError) as error:
            self._handle = None
            raise StateError(f"the scheduler does not answer now: {str(error).splitlines()[0]}") from None


class ApiActor:
    """The class of the actor that serves the API."""

    def __init__(
        self,
        settings: ApiSettings,
        port: int,
        log_format: LogFormat = LogFormat.TEXT,
        studies_folder: str = "",
    ) -> None:
        write_logs("api", log_format)
        studies = StudiesOnRay(Path(studies_folder)) if studies_folder else None
        self._server = Server(make_app(RayScheduler(), settings, studies), settings, port)
        log.info("listening on %s port %d", settings.host, self._server.port)
        if studies is not None:
            studies.serve(settings, self._server.port)

    def port(self) -> int:
        """Return the port that it listens on."""
        return self._server.port
