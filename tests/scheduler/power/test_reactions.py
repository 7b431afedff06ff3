"""What becomes of a machine, as tables of scenarios: what is seen and answered, and what is done.

A scenario is one line each: `SECONDS SIGHT [ANSWER] -> STATE[/STEP] [DO]`. Sights are `here` (its node may be
used), `up` (its node lives and takes no jobs), `gone` (it has none), `twice` (two nodes have its name), `busy` (a
job is on it), `working` and `waking` (a command is under way).
"""

from __future__ import annotations

import re

import pytest
from coadapt.core.cluster import Node
from coadapt.core.machine_states import MachineState
from coadapt.core.power_settings import PowerSettings
from coadapt.scheduler.power.machine import ASLEEP, FAILED, LEAVING, ON, WAKING, Machine, Step
from coadapt.scheduler.power.reactions import Answer, Do, Sight, fall_asleep, react, wake

NODE = Node("n", "a100", 4, 8.0, 64.0, machine="m")
SETTINGS = PowerSettings(
    adapter="emulated", sleep_limit_s=100, wake_limit_s=200, boot_s=20, tries=2, rest_s=300, idle_watts=800
)
SIGHTS = {
    "here": Sight(("n",), NODE),
    "up": Sight(("n",)),
    "gone": Sight(),
    "twice": Sight(("n", "o")),
    "busy": Sight(("n",), busy="a-1 is there"),
    "working": Sight(("n",), under_way=Do.SLEEP),
    "waking": Sight(under_way=Do.WAKE),
}
ANSWERS = {
    "free": Answer(Do.LOOK, True),
    "taken": Answer(Do.LOOK, False, "a Ray actor is there: x"),
    "slept": Answer(Do.SLEEP, True),
    "sleep-failed": Answer(Do.SLEEP, False, "status 1"),
    "woken": Answer(Do.WAKE, True),
    "wake-failed": Answer(Do.WAKE, False, "status 1"),
    "is-on": Answer(Do.STATE, True, is_on=True),
    "is-off": Answer(Do.STATE, True, is_on=False),
    "unknown": Answer(Do.STATE, False, "no answer"),
}
LINE = re.compile(r"(\d+) (\w+)(?: ([\w-]+))? -> (\w+)(?:/(\w+))?(?: (\w+))?")


def play(machine: Machine, story: str) -> tuple[Machine, list[str]]:
    """Play a scenario, and return the machine at its end with all that was told."""
    told = []
    for line in filter(None, map(str.strip, story.splitlines())):
        match = LINE.fullmatch(line)
        assert match is not None, line
        answer = None if match[3] is None else ANSWERS[match[3]]
        found = react(machine, SIGHTS[match[2]], answer, SETTINGS, float(match[1]))
        machine = found.machine
        told += [found.told] if found.told else []
        shown = (machine.state.value, machine.step.value if match[5] else None, found.do)
        assert shown == (match[4], match[5], match[6]), f"{line}: {shown}: {machine.reason}"
    return machine, told


def leaving() -> Machine:
    return fall_asleep(Machine("m", NODE), "nobody needs it", 900.0, 0.0).machine


def waking() -> Machine:
    return wake(leaving().turned(ASLEEP, 0.0, "nobody needs it"), "it is needed", 0.0).machine


ASLEEP_AT_LAST = """
1 up free -> leaving/command sleep
2 working -> leaving/command
3 up slept -> leaving/wait
4 up -> leaving/wait
5 gone -> leaving/wait state
6 gone is-off -> asleep forget
7 gone -> asleep
"""


def test_a_machine_falls_asleep_once_it_is_off_and_its_node_has_gone() -> None:
    begun = fall_asleep(Machine("m", NODE), "nobody needs it", 900.0, 0.0)
    assert (begun.do, begun.machine.state, begun.machine.step) == (Do.LOOK, LEAVING, Step.LOOK)
    machine, told = play(begun.machine, ASLEEP_AT_LAST)
    assert (machine.since_s, machine.until_s, machine.reason) == (6.0, 900.0, "nobody needs it")
    assert told == ["m sleeps"]


@pytest.mark.parametrize(
    ("story", "why"),
    [
        ("1 up taken -> on open", "a Ray actor is there: x"),
        ("1 busy free -> on open", "a-1 is there"),
        ("1 twice free -> on open", "2 nodes have this machine name"),
        (
            """
            1 up free -> leaving/command sleep
            2 up sleep-failed -> leaving/look
            3 up -> leaving/look
            12 up -> leaving/look look
            13 up free -> leaving/command sleep
            14 up sleep-failed -> leaving/look
            24 up -> on open
            """,
            "it could not be powered off: status 1",
        ),
        (
            """
            1 up free -> leaving/command sleep
            2 up slept -> leaving/wait
            50 up -> leaving/wait
            103 up -> on open
            """,
            "it was said to be off, and its node still answers",
        ),
    ],
    ids=["others run there", "a job came", "two of one name", "its command fails", "its command lies"],
)
def test_a_machine_that_cannot_fall_asleep_stays_on_and_is_left_alone_for_a_while(story: str, why: str) -> None:
    machine, told = play(leaving(), story)
    assert (machine.reason, told) == (why, [f"m stays on: {why}"])
    assert machine.rest_until_s == machine.since_s + 300.0


def test_a_machine_that_is_needed_again_stays_on_if_it_could_not_be_powered_off() -> None:
    machine, _ = play(leaving(), "1 up free -> leaving/command sleep")
    machine = wake(machine, "it is needed", 2.0).machine
    machine, told = play(machine, "3 up sleep-failed -> leaving/look\n4 up -> leaving/look\n13 up -> on open")
    assert told == ["m stays on: it is needed again"]
    play(machine, "14 gone -> on\n20 gone -> waking/command wake")  # the command has worked all the same


@pytest.mark.parametrize(
    "story",
    [
        "1 up -> leaving/look look",  # before anything was done
        "1 gone -> leaving/command state\n2 gone is-off -> leaving/wait",
    ],
    ids=["its node is there", "its node has gone meanwhile"],
)
def test_a_service_that_was_killed_before_the_command_looks_again(story: str) -> None:
    play(leaving(), story)


@pytest.mark.parametrize(
    "story",
    [
        # It had slept, or was about to.
        "2 gone -> leaving/command state\n3 gone is-off -> leaving/wait\n4 gone -> leaving/wait state",
        # The command was lost: whatever came there since is looked for.
        "2 up -> leaving/command state\n3 up is-on -> leaving/look\n4 up -> leaving/look look",
        # Its node has gone, and it is still on.
        "2 gone -> leaving/command state\n3 gone is-on -> leaving/command sleep\n4 gone slept -> leaving/wait",
        # Nobody can tell, and its node is there.
        "2 up -> leaving/command state\n3 up unknown -> leaving/look",
        # Nothing works: it is brought back.
        """
        2 gone -> leaving/command state
        3 gone unknown -> leaving/command sleep
        4 gone sleep-failed -> waking/command wake
        """,
    ],
    ids=["off", "on with its node", "on without its node", "unknown with its node", "unknown without its node"],
)
def test_a_service_that_was_killed_in_the_middle_of_powering_off_asks_for_the_state_and_goes_on(
    story: str,
) -> None:
    play(leaving(), f"1 up free -> leaving/command sleep\n{story}")


def test_a_command_that_fails_and_powers_the_machine_off_all_the_same_is_no_failure() -> None:
    story = """
    1 up free -> leaving/command sleep
    2 up sleep-failed -> leaving/look
    12 gone -> leaving/command state
    13 gone is-off -> leaving/wait
    14 gone -> leaving/wait state
    15 gone is-off -> asleep forget
    """
    assert play(leaving(), story)[0].state is ASLEEP


def test_a_machine_that_is_on_without_its_node_is_brought_back_in_the_end() -> None:
    story = """
    1 up free -> leaving/command sleep
    2 gone slept -> leaving/wait
    3 gone -> leaving/wait state
    4 gone is-on -> leaving/wait
    5 gone -> leaving/wait
    19 gone -> leaving/wait state
    103 gone is-on -> waking/command wake
    """
    machine, told = play(leaving(), story)
    assert told == ["m is woken: its node is gone, and it is still on"]
    assert machine.state is WAKING


def test_a_machine_that_is_needed_while_it_leaves_stays_or_is_woken_as_soon_as_it_is_off() -> None:
    stays = wake(leaving(), "it is needed", 1.0)
    assert (stays.machine.state, stays.do) == (ON, Do.OPEN)
    gone = play(leaving(), "1 up free -> leaving/command sleep")[0]
    later = wake(gone, "it is needed", 2.0)
    assert (later.machine.state, later.do) == (LEAVING, None)
    play(
        later.machine,
        "3 gone slept -> leaving/wait\n4 gone -> leaving/wait state\n5 gone is-off -> waking/command wake",
    )


def test_a_machine_wakes_when_its_node_may_be_used() -> None:
    machine, told = play(
        waking(),
        "1 waking -> waking/command\n2 gone woken -> waking/wait\n9 up -> waking/wait\n12 here -> on",
    )
    assert (machine.state, told) == (ON, ["m is awake after 12 s"])


@pytest.mark.parametrize(
    "story",
    [
        "1 gone -> waking/command state\n2 gone is-off -> waking/command wake",
        "1 gone -> waking/command state\n2 gone is-on -> waking/wait",
        "1 gone -> waking/command state\n2 gone unknown -> waking/command wake",
    ],
    ids=["off", "on", "unknown"],
)
def test_a_service_that_was_killed_in_the_middle_of_waking_asks_for_the_state_and_goes_on(story: str) -> None:
    play(waking(), story)


def test_a_machine_that_goes_off_while_it_wakes_is_woken_again() -> None:
    story = """
    1 gone woken -> waking/wait
    15 gone -> waking/wait
    16 gone -> waking/wait state
    17 gone is-off -> waking/command wake
    18 gone woken -> waking/wait
    33 gone -> waking/wait state
    34 gone is-on -> waking/wait
    90 gone -> waking/wait state
    91 gone is-on -> waking/command wake
    """
    play(waking(), story)


@pytest.mark.parametrize(
    ("story", "why"),
    [
        ("1 gone woken -> waking/wait\n201 gone -> failed forget", "it did not come back in 200 s"),
        ("201 waking -> failed forget", "it did not come back in 200 s"),
        (
            """
            1 gone wake-failed -> waking/command
            2 gone -> waking/command
            11 gone -> waking/command state
            12 gone is-off -> waking/command wake
            13 gone wake-failed -> failed forget
            """,
            "it could not be woken: status 1",
        ),
    ],
    ids=["late", "its command hangs", "its command fails"],
)
def test_a_machine_that_does_not_come_back_has_failed_until_it_does(story: str, why: str) -> None:
    machine, told = play(waking(), story)
    assert (machine.state, machine.reason, told[-1]) == (FAILED, why, f"m has failed: {why}")
    assert play(machine, "900 up -> failed\n901 here -> on")[1] == ["m has come back after all"]
    assert wake(machine, "an operator asked for it", 950.0).do is Do.WAKE


def test_a_machine_that_somebody_else_has_woken_is_on() -> None:
    asleep = play(leaving(), ASLEEP_AT_LAST)[0]
    machine, told = play(asleep, "10 up -> asleep\n26 here -> on")
    assert (told, machine.slept_s) == (["m is on, and was not woken from here"], 20.0)


def test_a_machine_that_comes_back_with_other_gpus_is_taken_as_it_is_now() -> None:
    other = Sight(("o",), Node("o", "t4", 2, machine="m"))
    found = react(waking(), other, None, SETTINGS, 12.0)
    told = "m is awake after 12 s; it has 2 GPUs of type t4 now, and had 4 GPUs of type a100"
    assert (found.machine.node.gpu_type, found.machine.state, found.told) == ("t4", ON, told)
    on = react(Machine("m", NODE, keep=True), other, None, SETTINGS, 5.0)
    assert on.told == "m has come back; it has 2 GPUs of type t4 now, and had 4 GPUs of type a100"


WOKEN = "1 gone woken -> waking/wait\n12 here -> on"


def test_a_machine_that_is_lost_soon_after_it_woke_is_woken_again() -> None:
    machine = play(waking(), WOKEN)[0]
    story = "20 gone -> on\n21 up -> on\n30 gone -> on\n34 gone -> on\n35 gone -> waking/command wake"
    assert play(machine, story)[1] == ["m is woken: its node has gone soon after it came"]


def test_a_machine_that_is_lost_later_is_told_and_not_powered_on_under_somebody_s_hands() -> None:
    machine = play(waking(), WOKEN)[0]
    story = "900 gone -> on\n959 gone -> on\n960 gone -> failed forget\n961 gone -> failed"
    assert play(machine, story)[1] == ["m has failed: its node has gone"]
    kept = Machine("m", NODE, keep=True)
    assert play(kept, "900 gone -> on\n961 gone -> failed forget")[1] == ["m has failed: its node has gone"]


@pytest.mark.parametrize("state", list(MachineState))
def test_a_machine_is_read_back_as_it_was_written(state: MachineState) -> None:
    machine = leaving().turned(state, 5.0, "so", step=Step.WAIT, keep=True, then_wake=True)
    assert Machine.from_json(machine.to_json()) == machine
