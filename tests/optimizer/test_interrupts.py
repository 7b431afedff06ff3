"""Ctrl-C while a program is solved ends the solve, and neither the process nor what the program knows."""

import os
import signal
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProgram
from coadapt.optimizer.interrupts import InterruptsWait


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """Set the handler of ordinary processes. Those that tests are shared among ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_is_handled_once_all_is_handed_over() -> None:
    done = []

    def interrupted() -> None:
        with InterruptsWait():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True, True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_signal_nothing_happens_and_other_threads_do_not_touch_the_handler() -> None:
    seen = []

    def elsewhere() -> None:
        with InterruptsWait():
            seen.append(signal.getsignal(signal.SIGINT))

    with InterruptsWait():
        pass
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_where_python_handles_no_interrupts_they_stay_as_they_are(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with InterruptsWait():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_rounds_are_solved_leaves_a_program_that_goes_on() -> None:
    rng, gpus, count = np.random.default_rng(0), 2.0 ** np.arange(6), 1000
    usage = np.kron(np.eye(4), gpus)
    value = np.repeat(rng.uniform(0.5, 3.0, (count, 4)), 6, axis=1) * np.tile(gpus, 4) ** rng.uniform(
        0.3, 1.0, (count, 1)
    )
    ids = [str(i) for i in range(count)]
    program = ChoiceProgram(usage, np.full(4, float(count)), np.repeat(np.arange(4), 6), np.tile(gpus, 4))
    program.upsert(ids, value, np.ones(value.shape, bool))
    program.solve(ids)

    def rounds_until_ctrl_c() -> None:
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            program.set_weights(ids, np.zeros(count), rng.uniform(0.7, 1.4, count))
            program.solve(ids)

    for _ in range(20):
        with pytest.raises(KeyboardInterrupt):
            rounds_until_ctrl_c()
        found = program.solve(ids)
        assert found.proven
        assert (usage[:, found.choice[found.choice >= 0]].sum(axis=1) <= program.capacity).all()
