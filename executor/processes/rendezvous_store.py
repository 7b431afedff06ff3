"""The store in which a job's groups meet, served by one process for all executors of a machine.

So no executor imports torch, which would cost each job seconds of CPU and hundreds of MiB.
"""

from __future__ import annotations

import logging
import socket
import time

from ..protocol.ranks import Rendezvous
from .helper_client import connected
from .template_wire import Owner, receive, send

log = logging.getLogger(__name__)

START_S = 120.0  # a new process imports torch before it answers
SOON_S = 5.0  # a store that was lost sooner is served anew after a pause


def keep(listener: socket.socket, address: Rendezvous, owner: Owner) -> None:
    """Have the store served while this process lives; call it in its own thread.

    Whoever connects before waits in the listener's queue. A store whose process is lost is served anew by the
    next one; groups that have formed do not need it.
    """
    while True:
        began_s = time.monotonic()
        try:
            with connected(owner) as connection:
                send(connection, {"host": address.host, "port": address.port}, [listener.fileno()])
                connection.settimeout(START_S)
                receive(connection)
                connection.settimeout(None)
                connection.recv(1)
        except OSError as error:
            log.warning("the store at %s:%d: %s", address.host, address.port, error)
        log.warning("the store at %s:%d was lost and is served anew", address.host, address.port)
        if time.monotonic() - began_s < SOON_S:
            time.sleep(1.0)  # in a thread of its own
