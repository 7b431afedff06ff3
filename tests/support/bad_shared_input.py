"""What may be sent to a shared cluster by mistake or in bad faith, each with the beginning of its one sentence.

`tests/api/test_shared_bad_input.py` holds every row. Its name begins with the part that it is of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coadapt.core.job import Phase
from coadapt.deploy.scaling_file import ScalingFileError, load
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.delivery.letters import Kind, Letter
from coadapt.scheduler.delivery.sender import Sender
from coadapt.scheduler.delivery.signing import new_secret

from tests.support.api import JOB, SPEC
from tests.support.bad_service_input import KEY, Place, Way, asked, submitted, webhook
from tests.support.receiver import Answer, Receiver

FILE = {
    "teams": {
        "vision": {"users": ["ann", "bob"], "priorities": ["low", "normal"]},
        "speech": {"users": ["ann"]},
    }
}


def applied(teams: Mapping[str, Any]) -> Way:
    """Apply a file of teams."""
    return asked("PUT", "/v1/teams", "ops", json={"file": {"teams": teams}})


def tried(**change: Any) -> Way:
    """Ask what would be, after a first round."""

    def way(place: Place) -> str:
        settings = place.api.world.settings
        settings.take(settings.model_copy(update={"policy": "fifo", "forecast_cpu_s": 0.0}))
        place.api.world.play("submit w unprofiled rigid=2\nwish w t4-000:2\ngo")
        done = place.api.world.cycle.last_round
        assert done is not None
        place.api.service.parts.forecaster.planned(done)
        try:
            return asked("POST", "/v1/whatif", "ops", json=change)(place)
        finally:
            place.api.service.parts.asker.stop()

    return way


def in_teams(way: Way, file: Mapping[str, Any] = FILE) -> Way:
    """Do something where teams share the cluster."""

    def shared(place: Place) -> str:
        assert place.api.ask("PUT", "/v1/teams", "ops", json={"file": file}).status_code == 200
        return way(place)

    return shared


def made(place: Place, name: str, user: str = "ann", **fields: Any) -> str:
    """Submit a job, and return its id."""
    body = {**JOB, "spec": {**SPEC, "name": name, **fields}}
    answer = place.api.ask("POST", "/v1/jobs", user, json=body, headers={"Idempotency-Key": name})
    return str(answer.json()["id"])


def of_no_team(place: Place) -> str:
    """Submit as somebody who is in no team, where no team takes others."""
    return asked("POST", "/v1/jobs", "ops", json=JOB, headers=KEY)(place)


def after_a_failed_job(place: Place) -> str:
    """Submit a job that starts only if another one succeeds, which has failed."""
    first = made(place, "first")
    store = place.api.world.store
    job = store.get(first)
    store.save(replace(job, state=replace(job.state, phase=Phase.FAILED, reason="ValueError: no")))
    return submitted({"after": [first]})(place)


def in_a_circle(place: Place) -> str:
    """Let a job wait for one that waits for it."""
    first = made(place, "first")
    second = made(place, "second", after={"any": [first]})
    assert place.api.ask("POST", f"/v1/jobs/{first}/pause", "ann", headers=KEY).status_code == 200
    body = {**JOB, "spec": {**SPEC, "name": "first", "after": {"any": [second]}}}
    return asked("POST", f"/v1/jobs/{first}/resume", json=body, headers={"Idempotency-Key": "again"})(place)


def beyond_its_time(place: Place) -> str:
    """Let a job go on that has trained for longer than its time limit."""
    job_id = made(place, "long", time_limit="1h")
    place.api.service.cancel(job_id)
    store = place.api.world.store
    store.save(replace(store.get(job_id), ran_s=3700.0, retired=True))
    return asked("POST", f"/v1/jobs/{job_id}/resume", json={}, headers=KEY)(place)


def checkpointed(place: Place, **fields: Any) -> str:
    """Return a job of ann's that has a checkpoint of step 100."""
    job_id = made(place, "trained", **fields)
    CheckpointStore(place.api.world.settings.checkpoint_url(job_id, None), keep=5).save({}, 100)
    return job_id


def from_another_team(place: Place) -> str:
    """Start from the checkpoint of another team's job."""
    return submitted({"resume_from": checkpointed(place, team="vision"), "team": "speech"})(place)


def of_another_model(place: Place) -> str:
    """Start a script that trains no model of Coadapt's from a checkpoint of one."""
    return submitted({"resume_from": checkpointed(place), "script": "", "command": ["make"]})(place)


def that_is_gone(place: Place) -> str:
    """Start from a checkpoint that is there no longer."""
    return submitted({"resume_from": f"{checkpointed(place)}@7"})(place)


def the_101st(place: Place) -> str:
    """Submit one job more than may be queued."""
    for number in range(100):
        place.api.job("ann", f"j{number}")
    return str(place.api.ask("POST", "/v1/jobs", "ann", json=JOB, headers=KEY).json()["detail"])


def beyond_its_budget(place: Place) -> str:
    """Return why a job waits whose user has used up the value units of this month."""
    api, world = place.api, place.api.world
    file = {"prices": {"t4": 2.0}, "user_limits": {"value_units_a_month": 0.5}}
    assert api.ask("PUT", "/v1/teams", "ops", json={"file": file}).status_code == 200
    world.play("submit a unprofiled\nwish a t4-000:2\ngo\nruns a\nafter 3600\ngo")
    (told,) = (e.data["text"] for e in world.store.events(world.ids["a"]) if e.kind.value == "budget")
    return str(told)


def delivered(answer: Answer, answer_s: float = 10.0) -> Way:
    """Send an event to a receiver on this machine, which is allowed here."""

    def way(place: Place) -> str:
        sender = Sender()
        with Receiver(lambda got, number: answer) as receiver:
            url = receiver.url
            letter = Letter("evt_1", 1, Kind.PROGRAM, url, new_secret(), "{}", answer_s, ("127.0.0.1",))
            told, until_s = sender.exchange(1, [], [letter], 1.0), time.monotonic() + 30.0
            while not told.outcomes and time.monotonic() < until_s:
                told = sender.exchange(1, [], [], 1.0)
            if answer.held is not None:
                answer.held.set()
            assert len(receiver.got) == 1
        (outcome,) = told.outcomes
        return outcome.problem.replace(url.rpartition("/")[0], "{url}")

    return way


def scaled(fields: str, cluster: str = "") -> Way:
    """Read a file of scaling that names one type t4. `cluster`: the file of Ray's autoscaler beside it."""

    def way(place: Place) -> str:
        path = place.folder / "scaling.yaml"
        named = "cluster: cluster.yaml\n" if cluster else ""
        path.write_text(f"budget_per_h: 20\n{named}types:\n  t4: {{gpu_type: t4, gpus: 4, max: 3, {fields}}}\n")
        (place.folder / "cluster.yaml").write_text(cluster)
        try:
            return f"taken: {load(path)}"
        except ScalingFileError as refused:
            return str(refused)

    return way


OTHER_TYPES = """
available_node_types:
  a100:
    resources: {CPU: 96, GPU: 8}
    labels: {coadapt.io/node-type: a100, coadapt.io/gpu-type: a100}
"""

# What is sent, how, and what is said of it.
BAD_SHARED_INPUT: list[tuple[str, Way, str]] = [
    (
        "teams: guarantees beyond the cluster",
        applied({"a": {"guarantee": {"t4": 3}}, "b": {"guarantee": {"t4": 2}}}),
        "guarantee.t4: 3 of a",
    ),
    (
        "teams: a cap below the guarantee",
        applied({"a": {"guarantee": {"t4": 3}, "cap": {"t4": 2}}}),
        "teams.a.cap.t4: 2 is less than its guarantee of 3",
    ),
    (
        "teams: an unknown GPU type",
        applied({"a": {"cap": {"a100": 5}}}),
        "teams.a.cap.a100: a100 is no GPU type of the nodes",
    ),
    ("teams: a user of no team", in_teams(of_no_team), "team: ops is in no team"),
    (
        "teams: two default teams",
        applied({"a": {"default": True}, "b": {"default": True}}),
        "teams.b.default: a is the default team already",
    ),
    (
        "teams: a pool without nodes",
        applied({"a": {"cap": {"t4@lab": 1}}}),
        "teams.a.cap.t4@lab: pool lab has no nodes",
    ),
    ("teams: a share of 0", applied({"a": {"share": 0}}), "teams.a.share: 0 is not a number above 0"),
    (
        "teams: a share that is no number, in JSON",
        asked("PUT", "/v1/teams", "ops", content=b'{"file": {"teams": {"a": {"share": NaN}}}}'),
        "the body has NaN in it, which is no JSON number",
    ),
    (
        "teams: a share that is no number, in YAML",
        tried(teams="teams: {a: {share: .nan}}"),
        "teams.a.share: ",
    ),
    (
        "jobs: a team that one is not of",
        in_teams(asked("POST", "/v1/jobs", "bob", json={**JOB, "spec": {**SPEC, "team": "speech"}}, headers=KEY)),
        "team: speech is no team of bob; accepted: vision",
    ),
    (
        "jobs: a priority that one may not use",
        in_teams(submitted({"team": "vision", "priority": "urgent"})),
        "priority: urgent is none that jobs of team vision may have; accepted: low, normal",
    ),
    ("jobs: after a job that has failed", after_a_failed_job, "after.ok: first-1 has failed; "),
    ("jobs: a circle", in_a_circle, "after: first-1 would wait for second-2, which waits for first-1"),
    (
        "jobs: an array of 100,000",
        submitted({"args": ["{x}", "{y}"], "array": {"grid": {"x": ["1"] * 1000, "y": ["1"] * 100}}}),
        "spec.array: has 100000 jobs; at most 1000 are accepted",
    ),
    ("jobs: a time limit in the past", beyond_its_time, "time_limit: 60 min is in the past, "),
    (
        "jobs: the checkpoint of another team's job",
        in_teams(from_another_team),
        "resume_from: trained-1 is of team vision, and this job counts for speech; ",
    ),
    (
        "jobs: the checkpoint of another model",
        of_another_model,
        "resume_from: fork: the job file is of a plain job",
    ),
    (
        "jobs: a checkpoint that is gone",
        that_is_gone,
        "resume_from: trained-1 has no checkpoint of step 7; it has those of 100",
    ),
    (
        "limits: the 101st job of 100",
        in_teams(the_101st, {"user_limits": {"queued": 100}}),
        "limits.queued: user ann has 100 queued jobs, and it would exceed",
    ),
    ("limits: a budget that is used up", beyond_its_budget, "user "),
    (
        "what-if: 10,000 nodes",
        tried(nodes="+10000x t4:4"),
        "nodes: ",
    ),
    (
        "what-if: a policy that is none",
        tried(policy="wisest"),
        "policy: 'wisest' is unknown; accepted: anticipatory, ",
    ),
    (
        "what-if: a job file with an error",
        tried(submit=[{"spec": {"name": "x y", "script": "t.py"}}]),
        "submit.0.spec.name: ",
    ),
    (
        "webhook: a metadata service",
        webhook(url="http://169.254.169.254/latest"),
        "url: 169.254.169.254 is a cloud's metadata service, to which nothing is sent",
    ),
    ("webhook: loopback", webhook(url="https://127.0.0.1/"), "url: 127.0.0.1 is this machine itself; "),
    (
        "webhook: a redirect to a metadata service",
        delivered(Answer(302, {"Location": "http://169.254.169.254/"})),
        "{url}/… answers with a redirect (302), which is not followed",
    ),
    (
        "webhook: a receiver that never answers",
        delivered(Answer(held=threading.Event()), 0.2),
        "{url}/… has not answered in 0.2 s",
    ),
    ("scaling: a price of 0", scaled("price_per_h: 0"), "{dir}/scaling.yaml: types.t4.price_per_h: 0 is no price"),
    (
        "scaling: a type that the autoscaler does not know",
        scaled("price_per_h: 2.0", OTHER_TYPES),
        "{dir}/scaling.yaml: types.t4: {dir}/cluster.yaml: no node type there has the label ",
    ),
]
