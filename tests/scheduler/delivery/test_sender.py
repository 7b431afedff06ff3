"""The sender asks real servers, leads nowhere that is not allowed, and sends nothing twice."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence

import pytest
from coadapt.scheduler.delivery import sender as sender_module
from coadapt.scheduler.delivery.letters import Kind, Letter
from coadapt.scheduler.delivery.sender import Outcome, Sender
from coadapt.scheduler.delivery.signing import new_secret, signature

from tests.support.receiver import Answer, Receiver

HERE = ("127.0.0.1",)


@pytest.fixture(scope="module")
def sender() -> Sender:
    return Sender()


def letter(
    url: str, sent_id: str, allowed: Sequence[str] = HERE, answer_s: float = 10.0, webhook: int = 1
) -> Letter:
    return Letter(sent_id, webhook, Kind.PROGRAM, url, new_secret(), '{"a":1}', answer_s, tuple(allowed))


def ended(sender: Sender, *letters: Letter) -> dict[str, Outcome]:
    """Send letters, and return how each ended."""
    ids, found = {one.id for one in letters}, dict[str, Outcome]()
    told = sender.exchange(1, [], letters, 1.0)
    deadline_s = time.monotonic() + 30
    while ids - found.keys() and time.monotonic() < deadline_s:
        found |= {one.id: one for one in told.outcomes if one.id in ids}
        told = sender.exchange(1, [one.number for one in found.values()], [], 1.0)
    return found


def problem(sender: Sender, url: str, allowed: Sequence[str] = HERE, answer_s: float = 10.0) -> str:
    sent_id = f"id-{time.monotonic_ns()}"
    return ended(sender, letter(url, sent_id, allowed, answer_s))[sent_id].problem


def test_a_letter_comes_with_a_signature_that_its_receiver_can_check(sender: Sender) -> None:
    with Receiver() as receiver:
        sent = letter(receiver.url, "evt_1_1")
        assert ended(sender, sent)["evt_1_1"].problem == ""
    (got,) = receiver.got
    assert (got.path, got.body, got.id) == ("/hook", sent.body, "evt_1_1")
    made = signature(sent.secret, got.id, int(got.headers["webhook-timestamp"]), got.body)
    assert got.headers["webhook-signature"] == made
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 60
    assert got.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "told", "after_s"),
    [
        (Answer(200, body=b"x" * 100_000), "", 0.0),
        (Answer(500), "answers with status 500", 0.0),
        (Answer(429, {"Retry-After": "17"}), "answers with status 429", 17.0),
        (Answer(503, {"Retry-After": "999999"}), "answers with status 503", 3600.0),
        (Answer(302, {"Location": "http://169.254.169.254/"}), "a redirect (302), which is not followed", 0.0),
        (Answer(307, {"Location": "/other"}), "a redirect (307), which is not followed", 0.0),
    ],
    ids=["long", "error", "busy", "away", "redirect-to-metadata", "redirect"],
)
def test_what_an_answer_means(sender: Sender, answer: Answer, told: str, after_s: float) -> None:
    with Receiver(lambda got, number: answer) as receiver:
        sent_id = f"id-{time.monotonic_ns()}"
        found = ended(sender, letter(receiver.url, sent_id))[sent_id]
    assert found.problem.endswith(told), found
    assert bool(found.problem) == bool(told)
    assert found.after_s == after_s
    assert len(receiver.got) == 1, "a redirect leads to no second request"


def test_a_receiver_that_never_answers_is_cut_off_and_keeps_no_other_waiting(sender: Sender) -> None:
    never = threading.Event()
    with Receiver(lambda got, number: Answer(held=never)) as slow, Receiver() as quick:
        stuck = [letter(slow.url, f"slow-{at}", answer_s=3.0, webhook=7) for at in range(20)]
        sender.exchange(1, [], stuck)
        began_s = time.monotonic()
        assert ended(sender, letter(quick.url, "quick", webhook=8))["quick"].problem == ""
        assert time.monotonic() - began_s < 2.5, "before the first of the others is cut off"
        assert problem(sender, slow.url, answer_s=0.2).endswith("has not answered in 0.2 s")
        never.set()


def test_an_answer_that_drips_is_cut_off_too(sender: Sender) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not over.wait(0.05):
                    try:
                        connection.sendall(b"X: y\r\n")
                    except OSError:
                        return

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        assert problem(sender, url, answer_s=0.5).endswith("has not answered in 0.5 s")
        over.set()


def test_nothing_is_sent_to_an_address_that_is_not_allowed(sender: Sender) -> None:
    with Receiver() as receiver:
        assert "this machine itself" in problem(sender, receiver.url, allowed=())
    assert receiver.got == []


def test_a_name_is_looked_at_where_it_leads_when_it_is_connected_to(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name resolves to a public address when it is checked, and to this machine when it is asked."""
    known: Callable[..., list[tuple[object, ...]]] = socket.getaddrinfo

    def elsewhere(host: str, port: int, *args: object, **more: object) -> list[tuple[object, ...]]:
        return known("127.0.0.1" if host == "hooks.example.com" else host, port, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", elsewhere)
    with Receiver() as receiver:
        url = f"https://hooks.example.com:{receiver.port}/hook"
        told = problem(sender, url, allowed=())
    assert told.startswith("hooks.example.com is 127.0.0.1, this machine itself; public addresses are accepted")
    assert receiver.got == []


def test_a_port_where_nobody_listens_is_told(sender: Sender) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "cannot be reached" in problem(sender, f"http://127.0.0.1:{port}/")


def test_a_letter_that_is_given_again_is_sent_once_until_its_end_is_confirmed() -> None:
    sender, hold = Sender(), threading.Event()
    with Receiver(lambda got, number: Answer(held=hold)) as receiver:
        sent = letter(receiver.url, "evt_1_1")
        sender.exchange(1, [], [sent])
        receiver.until(1)
        assert sender.exchange(2, [], [sent]).flying == {"evt_1_1"}, "the next service finds it under way"
        hold.set()
        (outcome,) = sender.exchange(2, [], [], 10.0).outcomes
        assert sender.exchange(2, [], [sent]).outcomes == (outcome,), "its end is told until it is confirmed"
        assert sender.exchange(2, [outcome.number], []).outcomes == ()
        assert len(receiver.got) == 1
        sender.exchange(2, [outcome.number], [sent])
        assert len(receiver.until(2)) == 2, "a try of its own, which an old confirmation does not hide"
        (again,) = sender.exchange(2, [outcome.number], [], 10.0).outcomes
        assert again.number != outcome.number


def test_a_service_that_was_replaced_is_not_served_any_more() -> None:
    sender = Sender()
    with Receiver() as receiver:
        sender.exchange(5, [], [])
        assert sender.exchange(4, [], [letter(receiver.url, "late")], 0.2).flying == frozenset()
        assert ended(sender_of_epoch(sender), letter(receiver.url, "next"))["next"].problem == ""
        assert [got.id for got in receiver.got] == ["next"]


def sender_of_epoch(sender: Sender) -> Sender:
    """Return the sender as a later service uses it."""

    class Later:
        def exchange(self, epoch: int, *rest: object) -> sender_module.Told:
            return sender.exchange(epoch + 9, *rest)  # type: ignore[arg-type]

    return Later()  # type: ignore[return-value]
