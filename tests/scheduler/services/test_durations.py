"""The service `durations` foretells lengths by earlier jobs, and nothing that happens later changes a forecast."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from coadapt.estimators.durations.model import LEAST_JOBS, Form, Kind
from coadapt.estimators.durations.sums import NAMES, Sums
from coadapt.estimators.foretold import Foretold
from coadapt.estimators.interpretable.corrections import is_monotone_in
from coadapt.estimators.job_history import EndedJob, SubmittedJob
from coadapt.scheduler.services.catalogue import make_service
from coadapt.scheduler.services.durations import DurationOptions, Durations
from coadapt.scheduler.services.host import FitAtOnce, ServiceHost

DAY_S = 86_400.0
LENGTHS_S = {"short": 60.0, "long": 7200.0}


def stream(count: int = 600, seed: int = 0) -> list[EndedJob]:
    """Return jobs of two owners, one every ten minutes; each owner's jobs take about as long as each other."""
    random = np.random.default_rng(seed)
    found = []
    for n in range(count):
        owner = ("short", "long")[n % 2]
        seconds = LENGTHS_S[owner] * float(np.exp(0.3 * random.standard_normal()))
        job = SubmittedJob(f"j{n}", owner, f"{owner}-{n}", "vc", 1 + n % 4, 8.0, 600.0 * n)
        found.append(EndedJob(job, job.submitted_s + seconds, seconds))
    return found


def forecasts(jobs: list[EndedJob], until_s: float = np.inf, **options: object) -> dict[str, Foretold]:
    """Return what is foretold of each job at its submission, and none of what happens after `until_s`."""
    host = ServiceHost({"durations": Durations(DurationOptions.model_validate(options))}, FitAtOnce())
    for one in jobs:
        if one.job.submitted_s <= until_s:
            host.submitted(one.job)
        if one.ended_s <= until_s:
            host.ended(one)
    return host.advance(1e12)


@pytest.mark.parametrize("form", list(Form))
def test_lengths_are_learned_by_owner(form: Form) -> None:
    found = forecasts(stream(), form=form)
    for n in (500, 501):
        owner = ("short", "long")[n % 2]
        assert 0.5 < found[f"j{n}"].mean_s / LENGTHS_S[owner] < (2 if form is Form.OURS else 5), owner
        assert "earlier jobs of its owner and name" in found[f"j{n}"].basis


@pytest.mark.parametrize("form", list(Form))
def test_nothing_leaks_a_forecast_is_the_same_whatever_happens_after_the_submission(form: Form) -> None:
    jobs = stream()
    for n in (5, 250, 599):
        at_s = jobs[n].job.submitted_s
        changed = [
            one if one.ended_s < at_s else replace(one, ended_s=one.ended_s + 5 * DAY_S, trained_s=1e6)
            for one in jobs
        ]
        alone = forecasts(jobs, until_s=at_s, form=form)[f"j{n}"]
        assert forecasts(jobs, form=form)[f"j{n}"] == forecasts(changed, form=form)[f"j{n}"] == alone


def test_a_job_that_ends_at_the_moment_of_a_submission_does_not_count_for_it() -> None:
    first = SubmittedJob("a", "ann", "", "vc", 1, 1.0, 0.0)
    second = replace(first, id="b", submitted_s=100.0)
    third = replace(first, id="c", submitted_s=100.5)
    host = ServiceHost({"durations": Durations()}, FitAtOnce())
    host.ended(EndedJob(first, 100.0, 100.0))
    for one in (third, second, first):
        host.submitted(one)
    found = host.advance(1000.0)
    assert found["a"].mean_s == found["b"].mean_s > found["c"].mean_s
    guess = "a guess, as no earlier job has ended"
    assert [found[id].basis for id in "abc"] == [guess, guess, "1 earlier job of its owner and size"]


def test_two_earlier_jobs_of_a_name_say_about_how_long_the_next_takes() -> None:
    service = Durations()
    for n in range(2):
        service.observe(EndedJob(SubmittedJob(f"j{n}", "ann", "train", "", 2, 2.0, 0.0), 600.0 + n, 600.0))
    found = service.foretell(SubmittedJob("new", "ann", "train", "", 2, 2.0, 1000.0))
    assert 600.0 < found.mean_s < 3 * 600.0
    assert found.low_s < 600.0 < found.high_s


def test_services_share_no_state_and_one_beside_changes_nothing_of_the_other() -> None:
    jobs = stream()
    alone = forecasts(jobs)
    host = ServiceHost({"durations": Durations(), "energy": make_service("energy", {})}, FitAtOnce())
    other = ServiceHost({"durations": Durations(DurationOptions(seed=7))}, FitAtOnce())
    for one in jobs:
        for each in (host, other):
            each.submitted(one.job)
            each.ended(one)
    assert host.advance(1e12) == alone
    assert other.advance(1e12) != alone


@pytest.mark.parametrize(("blend", "wanted_s"), [(0.1, 190.0), (0.0, 200.0), (1.0, 100.0)])
def test_the_published_estimate_blends_rolling_mean_and_trees(blend: float, wanted_s: float) -> None:
    class Trees200(Durations):
        """Trees that always say 200 s."""

        def fit_due(self, now: float) -> bool:
            return False

    service = Trees200(DurationOptions.model_validate({"form": "published", "lambda": blend}))
    for n in range(LEAST_JOBS):
        service.observe(EndedJob(SubmittedJob(f"j{n}", "bob", "", "vc", 1, 1.0, 0.0), 200.0, 200.0))
    service.take(service.fitting(1000.0)())
    service.observe(EndedJob(SubmittedJob("x", "ann", "train", "vc", 4, 1.0, 900.0), 1000.0, 100.0))
    assert service.foretell(SubmittedJob("y", "ann", "train", "vc", 4, 1.0, 2000.0)).mean_s == pytest.approx(
        wanted_s
    )


def test_trees_and_codes_survive_their_document() -> None:
    service = Durations()
    for one in sorted(stream(), key=lambda one: one.ended_s):
        service.observe(one)
    service.take(service.fitting(0.0)())
    document = json.loads(json.dumps(service.document()))
    again = Durations()
    again.read(document)
    for one in sorted(stream(), key=lambda one: one.ended_s):
        again.observe(one)
    asked = SubmittedJob("new", "long", "long-7", "vc", 2, 8.0, 1e6)
    assert again.foretell(asked) == service.foretell(asked)


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        ({"trees": "tree\ntorn"}, "trees: are no LightGBM model"),
        ({"form": "published"}, "trees: have 72 features, and 11 are accepted"),
        ({"spread": "tree"}, "trees: are no LightGBM model"),
        ({"codes": None}, "codes of owner, pool and name are missing"),
        ({"trees": None}, "sums: is no additive model"),
    ],
)
def test_a_document_that_is_no_such_model_is_refused(spoilt: dict[str, object], why: str) -> None:
    service = Durations()
    for one in sorted(stream(), key=lambda one: one.ended_s):
        service.observe(one)
    service.take(service.fitting(0.0)())
    with pytest.raises(ValueError, match=why):
        Durations().read({**(service.document() or {}), **spoilt})


def learned(**options: object) -> Durations:
    """Return a service that was fitted to the stream."""
    service = Durations(DurationOptions.model_validate(options))
    for one in sorted(stream(), key=lambda one: one.ended_s):
        service.observe(one)
    service.take(service.fitting(0.0)())
    return service


ASKED = SubmittedJob("new", "long", "long-7", "vc", 2, 8.0, 1e6)


def test_an_additive_model_foretells_by_owner_and_tells_its_forecast_as_a_sum() -> None:
    found = learned(model="additive").foretell(ASKED)
    assert 0.5 < found.mean_s / LENGTHS_S["long"] < 2
    assert learned().foretell(ASKED).sum == ""
    total, _, parts = found.sum.partition(" = ")
    size = {"min": 60.0, "h": 3600.0}
    seconds = [float(number) * size[unit] for number, unit in re.findall(r"([\d.]+) (min|h)", parts)]
    signs = [1.0, *(1.0 if sign == "+" else -1.0 for sign in re.findall(r" ([+-]) ", parts))]
    assert re.fullmatch(r"[\d.]+ (min|h)", total)
    assert sum(sign * part for sign, part in zip(signs, seconds, strict=True)) == pytest.approx(
        found.mean_s, rel=0.2
    ), "each part is shown with two digits"
    assert " jobs like it" in found.sum


def test_an_additive_model_and_its_corrections_survive_their_document_and_every_fit() -> None:
    change = [{"monotone": "gpus", "direction": "decreasing", "pairs": "drop"}]
    service = learned(model="additive", corrections=change)
    again = Durations(DurationOptions.model_validate({"model": "additive", "corrections": change}))
    again.read(json.loads(json.dumps(service.document())))
    for one in sorted(stream(), key=lambda one: one.ended_s):
        again.observe(one)
    assert again.foretell(ASKED) == service.foretell(ASKED)
    for _ in range(2):
        model = service._model
        assert model is not None
        assert isinstance(model.trees, Sums)
        assert is_monotone_in(model.trees.model, list(NAMES).index("gpus"), "decreasing")
        service.take(service.fitting(0.0)())


def test_corrections_that_are_taken_back_are_gone_from_the_model_that_was_kept() -> None:
    by_hand = [{"within": {"gpus": [1, 8]}, "value": 3.0}]
    document = learned(model="additive", corrections=by_hand).document()
    plain = Durations(DurationOptions.model_validate({"model": "additive"}))
    plain.read(document or {})
    changed = Durations(DurationOptions.model_validate({"model": "additive", "corrections": by_hand}))
    changed.read(document or {})
    assert changed.foretell(ASKED).mean_s > 3 * plain.foretell(ASKED).mean_s


def test_a_model_of_the_other_kind_is_not_read() -> None:
    with pytest.raises(ValueError, match=r"^lengths: the model is boosted, and additive is wanted$"):
        Durations(DurationOptions(model=Kind.ADDITIVE)).read(learned().document() or {})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "net"}, "service durations: model: 'net' is not accepted, must be one of boosted, additive"),
        ({"model": "additive", "form": "published"}, "model: additive goes with form ours"),
        ({"corrections": [{"monotone": "gpus"}]}, "corrections: go with model additive"),
        (
            {"model": "additive", "corrections": [{"monotone": "gpu"}]},
            "feature: 'gpu' is unknown; the nearest is 'gpus'",
        ),
        (
            {"model": "additive", "corrections": [{"monotone": "gpus", "direction": "up"}]},
            "direction: 'up' is not accepted, must be increasing or decreasing",
        ),
    ],
)
def test_options_of_models_that_cannot_be_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make_service("durations", options)
