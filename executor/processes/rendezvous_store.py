"""The store in which a job's groups meet, served by a process that the machine's template forks.

So an executor does not import torch, which would cost each job seconds of CPU and hundreds of MiB. Without a
template a thread of the executor serves the store.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from typing import NoReturn

from ..protocol.ranks import Rendezvous
from . import template_client
from .template_wire import ONE_THREAD, ForkRequest, Owner

log = logging.getLogger(__name__)

SOON_S = 5.0  # a forked store that ends sooner is not started again


def keep(listener: socket.socket, address: Rendezvous, owner: Owner) -> None:
    """Have the store served while this process lives; call it in its own thread.

    Whoever connects before waits in the listener's queue. A store that is lost with its template is served again;
    groups that have formed do not need it.
    """
    # Emulated replicas have the same environment, so that on a laptop they share a template with all stores.
    env = {**os.environ, **ONE_THREAD}
    request = ForkRequest(address.host, (str(address.port),), env, "/", (), owner, kind="store")
    with open(os.devnull, "wb") as nowhere:
        lasted_s = float("inf")
        while lasted_s > SOON_S:
            began_s = time.monotonic()
            try:
                template_client.fork(request, listener.fileno(), nowhere.fileno(), lambda: False).wait()
            except template_client.NoTemplate as error:
                log.info("the store is served by its executor: %s", error)
                break
            lasted_s = time.monotonic() - began_s
            log.warning("the store at %s:%d was lost and is served anew", address.host, address.port)
    serve(address.host, address.port, listener.detach())


def serve(host: str, port: int, listener: int) -> NoReturn:
    """Serve the store on a listening socket until the process ends."""
    from torch.distributed import TCPStore

    store = TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listener)
    while store:
        threading.Event().wait()
    raise AssertionError
