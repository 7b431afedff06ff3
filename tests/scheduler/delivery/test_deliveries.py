"""Events reach webhooks once and in order, whatever fails, ends or starts again meanwhile."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec
from coadapt.core.phase import Phase
from coadapt.core.settings import Settings
from coadapt.core.topics import Topic
from coadapt.core.webhook_settings import WebhookSettings
from coadapt.scheduler.access.secret_keys import Key, SecretKeys
from coadapt.scheduler.access.secrets import Secrets
from coadapt.scheduler.delivery.deliveries import Deliveries, SenderAway
from coadapt.scheduler.delivery.letters import Letter
from coadapt.scheduler.delivery.sender import Sender, Told
from coadapt.scheduler.delivery.webhooks import CLUSTER, Webhooks
from coadapt.scheduler.store import webhooks as table
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.failures import StoreFailure
from coadapt.scheduler.store.store import Store, Wrote

from tests.support.cycles import ManualClock
from tests.support.receiver import Answer, Got, Receiver

ALL = [topic.value for topic in Topic if topic is not Topic.TEST]
OF_JOBS = [one for one in ALL if one.startswith("job.")]


class Wire:
    """The way to a real sender, which may break. `cut`: "before" or "after" the sender has taken letters."""

    def __init__(self) -> None:
        self.sender, self.cut = Sender(), ""

    def exchange(self, epoch: int, confirmed: Any, letters: list[Letter], wait_s: float) -> Told:
        if self.cut == "before":
            raise SenderAway("it is cut")
        told = self.sender.exchange(epoch, confirmed, letters, wait_s)
        if self.cut == "after":
            raise SenderAway("it is cut")
        return told

    def end(self) -> None:
        """Leave the sender, which the next service uses."""


class House:
    """A store with webhooks, as one service after the other has it. Nothing runs by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.wire = folder, ManualClock(), Wire()
        self.settings = Settings(state_dir=str(folder), webhooks=WebhookSettings(allowed=("127.0.0.1",)))
        self.begin()

    def begin(self, wrote: Wrote = lambda error, seconds: None) -> None:
        """Let the next service begin. `wrote`: as of its store."""
        self.store = Store(self.settings.store, wrote)
        self.secrets = Secrets(self.store, SecretKeys(self.settings.secret_keys), self.clock)
        self.webhooks = Webhooks(self.store, self.secrets, self.settings, self.clock)
        epoch = self.store.database.epoch
        assert epoch is not None
        self.deliveries = Deliveries(
            self.store, self.webhooks, self.wire, self.settings, self.clock, epoch, dice=random.Random(1)
        )

    def job(self, name: str, owner: str = "ann", **fields: Any) -> str:
        spec, key = JobSpec(name=name, script="train.py", **fields), f"{owner}/{name}"
        return self.store.submit(spec, self.clock.steady_s(), idempotency_key=key, owner=owner)[0].id

    def log(self, kind: EventKind, job_id: str | None, text: str = "", **data: Any) -> None:
        self.store.log(Event(kind, self.clock.steady_s(), job_id, {"text": text, **data}))

    def failing(self, job_id: str, *texts: str) -> None:
        for text in texts:
            self.log(EventKind.FAILING, job_id, text)

    def until(self, done: Callable[[], bool], looks: int = 400) -> None:
        """Look until something is so. Each look waits for the sender."""
        for _ in range(looks):
            wait_s = self.deliveries.look()
            if done():
                return
            if not self.deliveries._waiting.under_way:
                self.clock.forward(max(wait_s, 1.0))
        raise AssertionError("it does not come to that")

    def delivered(self) -> None:
        """Look until nothing waits."""
        self.until(lambda: not table.waiting(self.store.database) and self.deliveries.figures()["pending"] == 0)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    found = House(tmp_path)
    yield found
    found.store.close()


def texts(receiver: Receiver) -> list[str]:
    return [got.document["data"]["text"] for got in receiver.got]


def test_a_user_is_told_of_own_jobs_and_of_what_was_asked_for(house: House) -> None:
    with Receiver() as receiver:
        house.job("before")
        house.webhooks.add("ann", "mine", receiver.url, ["job.failed", "job.moved"])
        mine, theirs = house.job("a"), house.job("b", owner="bob")
        house.deliveries.look()
        house.log(EventKind.RUNNING, mine, "first", first=True, elsewhere=True)
        house.log(EventKind.RUNNING, mine, "runs on 4xa100", first=False, elsewhere=True, gpus=4, gpu_type="a100")
        house.log(EventKind.RUNNING, mine, "the same", first=False, elsewhere=False)
        house.log(EventKind.FINISH, mine, "my bug", phase="failed")
        house.log(EventKind.FINISH, theirs, "their bug", phase="failed")
        house.log(EventKind.NODE, None, "t4-000 closes")
        house.delivered()
        moved, failed = receiver.until(2)
        assert len(receiver.got) == 2
    assert moved.document == {
        "type": "job.moved",
        "timestamp": moved.document["timestamp"],
        "data": {
            "event": 5,
            "text": "runs on 4xa100",
            "job": "a-2",
            "name": "a",
            "owner": "ann",
            "gpu_type": "a100",
            "gpus": 4,
        },
    }
    assert moved.document["timestamp"].startswith("1970-01-12T13:46:4")
    assert (failed.document["type"], failed.document["data"]["text"]) == ("job.failed", "my bug")
    assert [got.id for got in (moved, failed)] == ["evt_5_1", "evt_7_1"]


def test_an_operator_is_told_of_all_jobs_and_of_the_cluster(house: House) -> None:
    with Receiver() as receiver:
        house.webhooks.add(CLUSTER, "ops", receiver.url, ALL)
        job_id = house.job("a")
        house.deliveries.look()
        house.log(EventKind.RUNNING, job_id, "1", first=True, elsewhere=True)
        house.log(EventKind.FINISH, job_id, "2", phase="succeeded")
        house.log(EventKind.CANCEL, job_id, "it saves first")
        house.log(EventKind.CANCEL, job_id, "3", phase="cancelled")
        house.log(EventKind.NODE, None, "4")
        house.log(EventKind.ERROR, None, "5")
        house.log(EventKind.DEGRADED, None, "6")
        house.log(EventKind.PLAN, None, "not told")
        house.log(EventKind.QUARANTINE, job_id, "7")
        house.delivered()
        found = {got.document["data"]["text"]: got.document["type"] for got in receiver.until(7)}
    assert found == {
        "1": "job.started",
        "2": "job.succeeded",
        "3": "job.cancelled",
        "4": "node.changed",
        "5": "cluster.trouble",
        "6": "cluster.trouble",
        "7": "job.trouble",
    }


def test_a_job_file_says_who_is_told_of_it_and_of_what(house: House) -> None:
    with Receiver() as mine, Receiver() as other, Receiver() as by_url:
        house.webhooks.add("ann", "mine", mine.url, ["job.failed"])
        house.webhooks.add("ann", "other", other.url, ["job.failed"])
        notify = {"to": ["mine", by_url.url], "events": ["started", "succeeded"]}
        job_id = house.job("a", notify=notify)
        house.deliveries.look()
        house.log(EventKind.RUNNING, job_id, "starts", first=True, elsewhere=True)
        house.log(EventKind.FINISH, job_id, "fails", phase="failed")
        house.delivered()
        assert (texts(mine), texts(other), texts(by_url)) == (["starts"], ["fails"], ["starts"])
        assert "webhook-signature" in mine.got[0].headers
        assert "webhook-signature" not in by_url.got[0].headers, "nobody knows a secret"
        (row,) = [row for row in house.webhooks.rows("ann") if row["by_job"]]
        assert row["shown"] == by_url.url.removesuffix("hook") + "…"
        job = house.store.get(job_id)
        house.store.save(replace(job, state=replace(job.state, phase=Phase.FAILED), retired=True))
        house.clock.forward(60)
        house.deliveries.look()
        assert not any(row["by_job"] for row in house.webhooks.rows("ann")), "it goes with the job"
        assert house.secrets.opened(f"webhook/ann/{row['name']}") == {}


def test_events_of_a_job_arrive_in_order_though_a_receiver_fails(house: House) -> None:
    dice, lock = random.Random(3), threading.Lock()

    def answer(got: Got, number: int) -> Answer:
        with lock:
            return Answer(500 if dice.random() < 0.3 else 200)

    accepted: list[Got] = []

    def keep(got: Got, number: int) -> Answer:
        found = answer(got, number)
        if found.status == 200:
            with lock:
                accepted.append(got)
        return found

    with Receiver(keep) as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        jobs = [house.job(name) for name in "abcd"]
        house.deliveries.look()
        for at in range(40):
            house.failing(jobs[at % 4], str(at))
        house.delivered()
    assert sorted(int(got.document["data"]["text"]) for got in accepted) == list(range(40)), "each once"
    for job_id in jobs:
        numbers = [int(g.document["data"]["text"]) for g in accepted if g.document["data"]["job"] == job_id]
        assert numbers == sorted(numbers)
    assert len({got.id for got in accepted}) == 40
    assert len(receiver.got) > 45
    figures = house.deliveries.figures()
    assert (figures["sent"], figures["failed"]) == (40, len(receiver.got) - 40)


def test_an_event_that_comes_while_events_are_read_is_delivered_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        read, late = house.store.events_after, iter(("2", "3"))

        def meanwhile(*args: Any) -> list[Event]:
            for text in late:
                house.failing(job_id, text)
                break
            return read(*args)

        house.failing(job_id, "1")
        monkeypatch.setattr(house.store, "events_after", meanwhile)
        house.until(lambda: len(receiver.got) >= 3)
        house.delivered()
        assert texts(receiver) == ["1", "2", "3"]


def test_what_was_acknowledged_while_the_service_was_away_is_not_sent_again(house: House) -> None:
    hold = threading.Event()
    with Receiver(lambda got, number: Answer(held=hold)) as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        house.failing(job_id, "1", "2")
        house.until(lambda: bool(receiver.got))
        house.store.close()  # the service is killed while a letter is under way
        hold.set()
        house.begin()
        house.delivered()
        assert texts(receiver) == ["1", "2"]
        house.store.close()
        house.begin()
        house.failing(job_id, "3")
        house.delivered()
        assert texts(receiver) == ["1", "2", "3"]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_broken_way_to_the_sender_loses_nothing_and_doubles_nothing(house: House, cut: str) -> None:
    with Receiver() as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        house.failing(job_id, *map(str, range(10)))
        house.deliveries.look()
        for at in range(5):
            house.wire.cut = cut
            for _ in range(3):
                house.deliveries.look()
                house.clock.forward(1)
            assert at or house.deliveries.notes() == ["webhooks wait: SenderAway: it is cut"]
            house.wire.cut = ""
            house.deliveries.look()
        house.delivered()
        assert texts(receiver) == [str(at) for at in range(10)]


def test_a_sender_that_was_lost_is_given_again_what_it_did_not_tell_of(house: House) -> None:
    never = threading.Event()
    with Receiver(lambda got, number: Answer(held=never if number == 1 else None)) as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        house.failing(job_id, "1")
        house.until(lambda: bool(receiver.got))
        house.wire.sender = Sender()
        house.delivered()
        assert [got.id for got in receiver.got] == ["evt_2_1", "evt_2_1"], "with the same id"
        never.set()


def test_an_event_that_could_not_be_delivered_for_a_day_is_given_up_and_its_user_told(house: House) -> None:
    with Receiver(lambda got, number: Answer(500)) as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        house.failing(job_id, "1", "2")
        house.until(lambda: len(receiver.got) >= 5)
        house.clock.forward(86_400.0)
        house.until(lambda: house.deliveries.figures()["given_up"] == 2)
    assert table.waiting(house.store.database) == []
    told = [event for event in house.store.events(job_id) if event.kind is EventKind.DELIVERY]
    why = f"http://127.0.0.1:{receiver.port}/… answers with status 500"
    assert told[-1].data["text"].endswith(f"not delivered to webhook mine and will not be: {why}")


def test_more_than_may_wait_is_given_up_the_oldest_first(house: House) -> None:
    house.settings.take(
        house.settings.model_copy(update={"webhooks": WebhookSettings(allowed=("127.0.0.1",), most_waiting=3)})
    )
    with Receiver() as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        house.failing(job_id, *map(str, range(10)))
        house.wire.cut = "before"
        house.deliveries.look()
        house.clock.forward(60)
        house.deliveries.look()
        assert len(table.waiting(house.store.database)) == 3
        house.wire.cut = ""
        house.delivered()
        assert texts(receiver) == ["7", "8", "9"]


def test_nothing_of_a_removed_webhook_is_left(house: House) -> None:
    with Receiver(lambda got, number: Answer(500)) as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        house.failing(job_id, "1", "2")
        house.until(lambda: bool(receiver.got))
        house.deliveries.forget(house.webhooks.remove("ann", "mine"))
        assert table.waiting(house.store.database) == []
        assert house.secrets.opened("webhook/ann/mine") == {}
        for _ in range(3):
            house.deliveries.look()
            house.clock.forward(60)
        assert house.deliveries.figures()["pending"] == 0
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        assert house.webhooks.find("ann", "mine").number == 2, "no number is given twice, as ids have it in them"


def test_urls_and_secrets_lie_nowhere_in_the_clear_and_outlive_new_keys(house: House) -> None:
    with Receiver() as receiver:
        secret = house.webhooks.add("ann", "mine", receiver.url + "/token-of-ann", OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        house.secrets.rekey()
        house.failing(job_id, "1")
        house.delivered()
        assert receiver.got[0].path == "/hook/token-of-ann"
    for file in house.folder.glob("jobs.sqlite*"):
        assert b"token-of-ann" not in file.read_bytes()
        assert secret.encode() not in file.read_bytes()
    assert house.secrets.rows("ann") == []


def test_no_round_waits_while_a_look_is_stored(house: House) -> None:
    """A tick that changes nothing takes the lock of the store, too, and must not wait for the disk."""

    def tick() -> None:
        with house.store.together():
            pass

    def wrote(error: StoreFailure | None, seconds: float) -> None:
        if looking:
            other = threading.Thread(target=tick, daemon=True)
            other.start()
            other.join(5.0)
            waited.append(other.is_alive())

    looking, waited = False, list[bool]()
    house.store.close()
    house.begin(wrote)
    house.webhooks.add(CLUSTER, "ops", "https://example.com/hook", ALL)
    house.deliveries.look()
    house.failing(house.job("a"), "one")
    looking = True
    house.deliveries.look()
    assert table.waiting(house.store.database)
    assert waited == [False]


def test_nobody_waits_for_the_store_while_a_url_is_sealed(house: House) -> None:
    """A user's secret is sealed before it is stored, too. Otherwise each of two threads may wait for the other."""

    class Keys(SecretKeys):
        def sealing(self) -> Key:
            other = threading.Thread(target=house.store.log, args=(Event(EventKind.NODE, 1.0),), daemon=True)
            other.start()
            other.join(5.0)
            waited.append(other.is_alive())
            return super().sealing()

    waited = list[bool]()
    secrets = Secrets(house.store, Keys(house.settings.secret_keys), house.clock)
    webhooks = Webhooks(house.store, secrets, house.settings, house.clock)
    webhooks.add("ann", "mine", "https://example.com/hook", OF_JOBS)
    assert waited
    assert not any(waited)
    assert webhooks.where(webhooks.find("ann", "mine"))[0] == "https://example.com/hook"


def test_a_webhook_without_its_key_is_told_and_goes_on_once_the_key_is_back(house: House) -> None:
    with Receiver() as receiver:
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        job_id = house.job("a")
        house.deliveries.look()
        keys = house.settings.secret_keys.read_bytes()
        house.settings.secret_keys.unlink()
        house.failing(job_id, "1")
        webhook = house.webhooks.find("ann", "mine")
        house.until(lambda: "cannot be opened" in house.deliveries.lately(webhook).problem)
        house.settings.secret_keys.write_bytes(keys)
        house.delivered()
        assert texts(receiver) == ["1"]


def test_a_job_that_waits_for_long_is_told_once_in_a_wait_over_restarts_too(house: House) -> None:
    with Receiver() as receiver:
        house.webhooks.add("ann", "mine", receiver.url, ["job.waiting"])
        job_id, other = house.job("a"), house.job("b", owner="bob")
        house.deliveries.look()
        house.clock.forward(3599)
        house.deliveries.look()
        house.clock.forward(31)
        house.until(lambda: bool(receiver.got))
        for _ in range(3):
            house.clock.forward(3600)
            house.deliveries.look()
        house.store.close()
        house.begin()
        for _ in range(3):
            house.clock.forward(3600)
            house.deliveries.look()
        assert texts(receiver) == ["has waited for GPUs for 60 min"]
        assert not [e for e in house.store.events(other) if e.kind is EventKind.WAITS], "nobody asked for it"
        assert len([e for e in house.store.events(job_id) if e.kind is EventKind.WAITS]) == 1


def test_a_store_that_had_no_webhooks_tells_nothing_of_what_has_been(house: House) -> None:
    job_id = house.job("a")
    house.failing(job_id, "before")
    with Receiver() as receiver:
        house.deliveries.look()
        house.webhooks.add("ann", "mine", receiver.url, OF_JOBS)
        house.failing(job_id, "after")
        house.delivered()
        assert texts(receiver) == ["after"]


def test_slack_is_told_in_its_own_form_and_nothing_in_a_text_is_a_link(house: House) -> None:
    from coadapt.scheduler.delivery.letters import Kind, body_of, kind_of
    from coadapt.scheduler.delivery.topics import ToldJob

    assert kind_of("https://hooks.slack.com/services/T/B/x") is Kind.SLACK
    event = Event(EventKind.FINISH, 5.0, "a-1", {"text": "<!channel> & <http://x|y>"}, number=9)
    job, picture = ToldJob("a-1", "a", "ann"), "https://coadapt.example.com/pictures/a-1.png?until=1&signature=x"
    found = json.loads(body_of(Kind.SLACK, Topic.FAILED, event, job, 5.0, picture))
    assert found["blocks"][0]["text"]["text"] == "*a-1 has failed*\n&lt;!channel&gt; &amp; &lt;http://x|y&gt;"
    assert found["blocks"][1]["image_url"] == picture
