"""Whether a deadline will hold, as users are told: by a forecast of the end, or by what the policy plans. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .codes import Code
from .rewards import OnMissed, Rewards
from .wording import span

SAME_PART, SAME_S = 0.05, 5.0  # of the time left, and the least, by which an end must differ to change an answer


class Answer(Code):
    """What a job with a deadline is told; the values are stable."""

    ON_TIME = "on_time", "on time"
    AT_RISK = "at_risk", "at risk"
    CANNOT = "cannot_be_met", "cannot be met"
    MEASURED_FIRST = "measured_first", "measured first"
    MISSED = "missed", "missed"

    @property
    def holds_not(self) -> bool:
        """Whether something would have to give for the deadline to hold for sure."""
        return self in (Answer.AT_RISK, Answer.CANNOT)


@dataclass(frozen=True)
class End:
    """When a job ends, and the band of 80 % around that. All are moments of one clock."""

    at_s: float
    low_s: float
    high_s: float

    @property
    def half_s(self) -> float:
        """Half the width of the band, on its wider side."""
        return max(self.high_s - self.at_s, self.at_s - self.low_s)


@dataclass(frozen=True)
class Planned:
    """What a policy that serves deadlines plans for a job.

    by_s: by when it is to have ended; None: the policy does not say.
    given_up: whether it runs as best effort, as no deadline of its can be met.
    """

    by_s: float | None = None
    given_up: bool = False


NOT_PLANNED = Planned()


@dataclass(frozen=True)
class DeadlineAnswer:
    """What a job with a deadline is told. Moments are of one clock.

    due_s: the deadline that is planned for: the first that is likely to hold, or else the last one.
    end: None: no forecast says it.
    by_s: by when the policy plans it to have ended, where no forecast says more.
    known_s: of `MEASURED_FIRST`, when an answer is likely to come; None: nobody knows.
    worth, most: what ending as expected is worth, and what the first deadline is.
    cancelled: whether the job is cancelled at its last deadline.
    """

    answer: Answer
    due_s: float
    end: End | None = None
    by_s: float | None = None
    known_s: float | None = None
    worth: float = 0.0
    most: float = 0.0
    cancelled: bool = False

    def text(self, now_s: float, at: Callable[[float], str] | None = None) -> str:
        """Return it in words, such as `on time, expected end 13:12 ± 9 min`.

        Args:
            at: formats a moment; None: as the time from now on, which no time zone changes.
        """
        if self.answer is Answer.MEASURED_FIRST:
            return self.short(now_s)
        return f"{self.short(now_s)}{self._end_in_words(now_s, at)}{self._worth_in_words()}"

    def short(self, now_s: float) -> str:
        """Return it in words without its end, such as `on time`."""
        if self.answer is Answer.MEASURED_FIRST:
            return f"{self.answer.line}: {_when(self.known_s, now_s)}"
        if self.answer not in (Answer.CANNOT, Answer.MISSED):
            return self.answer.line
        then = "is cancelled at its last deadline" if self.cancelled else "runs as best effort"
        return f"{self.answer.line}, {then}"

    def _end_in_words(self, now_s: float, at: Callable[[float], str] | None) -> str:
        def said(moment_s: float) -> str:
            return f"in {span(max(moment_s - now_s, 0.0))}" if at is None else at(moment_s)

        if self.end is not None:
            band = f" ± {span(self.end.half_s)}" if self.end.half_s >= 0.5 else ""
            return f", expected end {said(self.end.at_s)}{band}"
        if self.by_s is not None and self.answer is not Answer.CANNOT:
            by = "" if at is None else "by "
            return f", planned to end {by}{said(self.by_s)}"
        return ""

    def _worth_in_words(self) -> str:
        if self.answer is Answer.AT_RISK and 0 < self.worth < self.most:
            return f", which is worth {self.worth:g} of {self.most:g}"
        return ""


def _when(known_s: float | None, now_s: float) -> str:
    if known_s is None:
        return "the answer comes once it has trained for a while"
    return f"the answer comes in about {span(max(known_s - now_s, 1.0))}"


def answer_of(
    rewards: Rewards,
    submitted_s: float,
    now_s: float,
    *,
    end: End | None = None,
    planned: Planned = NOT_PLANNED,
    is_known: bool = True,
    known_s: float | None = None,
    before: Answer | None = None,
    on_missed: OnMissed = OnMissed.BEST_EFFORT,
) -> DeadlineAnswer | None:
    """Return what a job is told of its deadline; None: nothing is known yet, though its length is.

    The end that is forecast decides. Where there is none, what the policy plans does.

    Args:
        rewards: the steps, in seconds after `submitted_s`.
        end: as forecast.
        is_known: whether anybody can tell how long the job takes.
        known_s: when that is likely to be known.
        before: what it was told before. An answer stays until the end differs by more than `SAME_PART` of the
            time left from where it would change.
    """
    steps = [submitted_s + by_s for by_s in rewards.by_s]
    cancelled = on_missed is OnMissed.CANCEL
    if now_s > steps[-1]:
        return DeadlineAnswer(Answer.MISSED, steps[-1], end, most=rewards.most, cancelled=cancelled)
    if end is not None:
        answer = _by_forecast(steps, now_s, end, planned, before)
        due_s = _due_s(steps, end.high_s if answer is Answer.ON_TIME else end.at_s)
        return DeadlineAnswer(
            answer, due_s, end, planned.by_s, worth=rewards.at(end.at_s - submitted_s), most=rewards.most,
            cancelled=cancelled,
        )  # fmt: skip
    if planned.given_up:
        return DeadlineAnswer(Answer.CANNOT, steps[-1], most=rewards.most, cancelled=cancelled)
    if not is_known:
        return DeadlineAnswer(Answer.MEASURED_FIRST, steps[0], known_s=known_s, most=rewards.most)
    if planned.by_s is None:
        return None
    by_s, worth = planned.by_s, rewards.at(planned.by_s - submitted_s)
    answer = Answer.ON_TIME if by_s <= steps[0] + SAME_S else Answer.AT_RISK if worth else Answer.CANNOT
    return DeadlineAnswer(
        answer, _due_s(steps, by_s), by_s=by_s, worth=worth, most=rewards.most, cancelled=cancelled
    )


def _by_forecast(
    steps: Sequence[float], now_s: float, end: End, planned: Planned, before: Answer | None
) -> Answer:
    slack_s = max(SAME_PART * max(end.at_s - now_s, 0.0), SAME_S) if before in _TOLD else 0.0
    late_s, hopeless_s = end.high_s - steps[0], end.low_s - steps[-1]
    if planned.given_up:  # it ends in time only if others leave enough
        hopeless_s = max(hopeless_s, end.at_s - steps[-1])
    if hopeless_s > (-slack_s if before is Answer.CANNOT else slack_s):
        return Answer.CANNOT
    return Answer.ON_TIME if late_s <= (slack_s if before is Answer.ON_TIME else -slack_s) else Answer.AT_RISK


_TOLD = (Answer.ON_TIME, Answer.AT_RISK, Answer.CANNOT)


def _due_s(steps: Sequence[float], end_s: float) -> float:
    """Return the first deadline by which an end is; the last one if none is."""
    at = bisect_left(steps, end_s)
    return steps[at] if at < len(steps) else steps[-1]
