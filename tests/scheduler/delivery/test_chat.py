"""Chat and mail go out by the library for them, to allowed addresses only."""

from __future__ import annotations

import socket
import threading
from importlib import util
from pathlib import Path

import pytest
from coadapt.core.topics import Topic
from coadapt.scheduler.delivery import chat
from coadapt.scheduler.delivery.chat import chat_problem, only_to, send_chat
from coadapt.scheduler.delivery.letters import Kind, body_of, chat_of, kind_of
from coadapt.scheduler.delivery.topics import ToldJob
from coadapt.scheduler.store.events import Event, EventKind

from tests.support.receiver import Answer, Receiver

HERE = ("127.0.0.1",)


class MailServer:
    """Takes one mail, as SMTP has it."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.mail, self.done = "", threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._server, self._server.accept()[0] as connection, connection.makefile("rwb") as file:

            def say(line: str) -> None:
                file.write(f"{line}\r\n".encode())
                file.flush()

            say("220 ready")
            while line := file.readline().decode().strip():
                if line.upper() == "DATA":
                    say("354 go on")
                    while (part := file.readline().decode()) != ".\r\n":
                        self.mail += part
                    say("250 taken")
                    self.done.set()
                elif line.upper() == "QUIT":
                    say("221 bye")
                    return
                else:
                    say("250 well")


def test_a_message_goes_to_a_chat_service_with_its_title_and_text() -> None:
    event = Event(EventKind.FINISH, 5.0, "a-1", {"text": "RuntimeError: my bug"}, number=9)
    body = body_of(
        Kind.CHAT, Topic.FAILED, event, ToldJob("a-1", "a", "ann"), 5.0, "https://x.example.com/a-1.png"
    )
    with Receiver(lambda got, number: Answer(200)) as receiver:
        url = f"json://127.0.0.1:{receiver.port}/hook"
        assert kind_of(url) is Kind.CHAT
        assert send_chat(url, *chat_of(body), HERE) == ""
    (got,) = receiver.got
    assert got.document["title"] == "a-1 has failed"
    assert got.document["message"] == "RuntimeError: my bug\nhttps://x.example.com/a-1.png"
    assert got.document["type"] == "failure"


def test_mail_is_sent() -> None:
    server = MailServer()
    url = f"mailto://127.0.0.1:{server.port}/?from=coadapt@example.com&to=ann@example.com"
    assert send_chat(url, "a-1 has succeeded", "after 5 min", False, HERE) == ""
    assert server.done.wait(20)
    assert "Subject: a-1 has succeeded" in server.mail
    assert "ann@example.com" in server.mail


def test_a_service_that_refuses_is_told_without_its_secret_parts() -> None:
    with Receiver(lambda got, number: Answer(500)) as receiver:
        url = f"json://127.0.0.1:{receiver.port}/secret-path"
        assert send_chat(url, "a", "b", False, HERE) == "json://… did not take the message"


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest", "http://127.0.0.2/"])
def test_a_library_that_follows_a_redirect_is_led_nowhere_that_is_not_allowed(target: str) -> None:
    with Receiver(lambda got, number: Answer(307, {"Location": target})) as receiver:
        told = send_chat(f"json://127.0.0.1:{receiver.port}/", "a", "b", False, HERE)
    assert told.startswith(target.split("/")[2]), told
    assert "to which nothing is sent" in told or "public addresses are accepted" in told


def test_a_url_of_this_machine_is_not_asked_unless_it_is_allowed() -> None:
    with Receiver() as receiver:
        told = send_chat(f"json://127.0.0.1:{receiver.port}/", "a", "b", False, ())
    assert told.startswith("127.0.0.1 is this machine itself; public addresses are accepted")
    assert receiver.got == []


def test_other_threads_connect_where_they_like() -> None:
    with Receiver() as receiver, only_to(()):
        found: list[bool] = []

        def connect() -> None:
            with socket.create_connection(("127.0.0.1", receiver.port)):
                found.append(True)

        thread = threading.Thread(target=connect)
        thread.start()
        thread.join()
        assert found == [True]
        with pytest.raises(chat.NotAllowed, match="this machine itself"):
            socket.create_connection(("127.0.0.1", receiver.port))


@pytest.mark.parametrize("place", ["workflows://example.com/a/b?template={}", "discord://1/token?template={}"])
def test_a_url_reads_no_file_of_this_machine(tmp_path: Path, place: str) -> None:
    """Otherwise whoever may add a webhook is sent files that only the scheduler may read."""
    file = tmp_path / "credentials.json"
    file.write_text('{"text": "a secret"}')
    told = send_chat(place.format(file), "a", "b", False, ())
    assert told == (
        "its URL names a file; a URL of chat or mail that reads no file of the scheduler's machine is accepted"
    )


def test_other_threads_and_other_times_open_what_they_like(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("words")
    with only_to(()) as refused, pytest.raises(chat.NotAllowed):
        file.read_text()
    assert refused == [chat.NO_FILE]
    assert file.read_text() == "words"


@pytest.mark.parametrize("url", ["nosuch://x", "syslog://localhost", "dbus://", "json://", "words"])
def test_what_is_no_service_is_refused(url: str) -> None:
    assert "is no URL that apprise knows; accepted are https:// and, for example, " in chat_problem(url)


def test_without_the_package_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = util.find_spec
    monkeypatch.setattr(chat, "find_spec", lambda name: None if name == "apprise" else known(name))
    told = chat_problem("discord://1/token")
    assert told == (
        "discord://… needs the package apprise on the scheduler's machine: pip install coadapt[notify]"
    )
