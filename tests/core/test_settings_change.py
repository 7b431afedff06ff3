"""Settings change as one types them, or one sentence says why not."""

from pathlib import Path

import pytest
from coadapt.core.errors import SettingError
from coadapt.core.settings import Settings
from coadapt.core.settings_change import changed, differing, parsed, typed


@pytest.fixture
def now(tmp_path: Path) -> Settings:
    return Settings(state_dir=str(tmp_path), policy="sia", policy_options={"p": -1.0})


def test_what_is_typed_counts(now: Settings) -> None:
    words = ["round_interval_s=30", "policy_options.lambda=2", "retention.event_days=null"]
    found = changed(now, parsed(words))
    assert (found.round_interval_s, found.policy_options) == (30.0, {"p": -1.0, "lambda": 2})
    assert (found.retention.event_days, found.retention.metric_days) == (None, now.retention.metric_days)
    assert differing(now, found) == ["policy_options", "round_interval_s", "retention"]


def test_another_policy_has_no_options_of_the_one_before(now: Settings) -> None:
    assert changed(now, {"policy": "fifo"}).policy_options == {}
    assert changed(now, {"policy": "sia"}).policy_options == {"p": -1.0}
    both = changed(now, {"policy": "coadapt", "policy_options": {"gap": 0.1}})
    assert both.policy_options == {"gap": 0.1}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("colour=red", "colour: unknown setting; known: policy, policy_options,"),
        ("round_interval_s=0", "round_interval_s: 0 is not a number above 0"),
        ("round_interval_s=soon", "round_interval_s: soon is not a number"),
        ("round_interval_s=NaN", "round_interval_s: NaN is not a finite number"),
        ("profile_share=2", "profile_share: 2 is not a number of at most 1"),
        ("state_dir=/data/x", "state_dir: cannot change while the scheduler runs: it names a place"),
        ("checkpoint_root=s3://x", "checkpoint_root: cannot change while the scheduler runs: it names a place"),
        ("store_url=postgresql://x/y", "store_url: cannot change while the scheduler runs: it names a place"),
        ("services={}", "services: cannot change while the scheduler runs: it counts from a start on"),
        ("api.port=9000", "api: cannot change while the scheduler runs: it counts from a start on"),
        ("retention.colour=1", "retention.colour: unknown setting"),
        ("retention.event_days=-1", "retention.event_days: -1 is not a number above 0"),
        ("policy.p=1", "policy.p: policy has no parts; it is sia"),
        ("backups_kept=1.5", "backups_kept: 1.5 is not"),
        ("round_interval_s", "round_interval_s is not of the form KEY=VALUE"),
        ("=3", "=3 is not of the form KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(now: Settings, word: str, says: str) -> None:
    with pytest.raises(SettingError) as told:
        changed(now, parsed([word]))
    assert str(told.value).startswith(says)
    assert "\n" not in str(told.value)


def test_at_a_start_each_setting_may_be_typed(now: Settings) -> None:
    found = typed(now, parsed(["api.port=9000", "checkpoint_root=s3://x", "log_format=json"]))
    assert (found.api.port, found.api.host) == (9000, now.api.host)
    assert differing(now, found) == ["checkpoint_root", "api", "log_format"]
    for word, says in (
        ("state_dir=/x", "state_dir: the variable COADAPT_HOME"),
        ("log_format=x", "log_format: x"),
    ):
        with pytest.raises(SettingError, match=says):
            typed(now, parsed([word]))


def test_a_setting_is_given_once() -> None:
    with pytest.raises(SettingError, match="policy is given twice"):
        parsed(["policy=sia", "policy=fifo"])


def test_whoever_holds_settings_sees_what_they_become(now: Settings) -> None:
    held = now
    now.take(changed(now, {"round_interval_s": 5}))
    assert held.round_interval_s == 5
    assert held == Settings(state_dir=held.state_dir, policy_options={"p": -1.0}, round_interval_s=5)
