"""Power files that are wrong, each with the one sentence that the user of `coadapt up --power` reads."""

from __future__ import annotations

from tests.support.answers import Started, Way

FIELDS = (
    "adapter, sleep, wake, state, command_limit_s, sleep_limit_s, wake_limit_s, boot_s, tries, rest_s, types, "
    "keep, idle_watts, asleep_watts"
)
EXAMPLE = 'such as [ipmitool, -H, "{machine}-bmc", chassis, power, status]'


def emulated(what: str, field: str, error: str) -> tuple[str, Way, str]:
    """Return the row of a field beside `adapter: emulated`."""
    return what, Started(power=f"adapter: emulated\n{field}\n"), f"--power: {{dir}}/power.yaml: {error}"


def file(what: str, text: str, error: str) -> tuple[str, Way, str]:
    return what, Started(power=text), f"--power: {{dir}}/power.yaml: {error}"


def command(what: str, words: str, error: str, verb: str = "sleep") -> tuple[str, Way, str]:
    """Return the row of one command beside others that work."""
    given = dict.fromkeys(("sleep", "wake", "state"), '[echo, "{machine}"]') | {verb: words}
    lines = "".join(f"{name}: {value}\n" for name, value in given.items())
    return file(what, f"adapter: command\n{lines}", f"{verb}: {error}")


# What is wrong, how it is reached, and the sentence.
BAD_POWER_FILES: list[tuple[str, Way, str]] = [
    command(
        "a power command that is text",
        '"ipmitool -H {machine}-bmc power off"',
        f"'ipmitool -H {{machine}}-bmc power off' is text; give a list of words, {EXAMPLE}; no shell reads it",
    ),
    command("a power command of no words", "[]", f"[] is not a list of words, {EXAMPLE}"),
    command(
        "a power command with a list within",
        '[echo, ["{machine}"]]',
        f"['echo', ['{{machine}}']] is not a list of words, {EXAMPLE}",
    ),
    command(
        "a power command that is a mapping", "{run: echo}", f"{{'run': 'echo'}} is not a list of words, {EXAMPLE}"
    ),
    command(
        "a power command without its machine",
        "[poweroff]",
        "none of the words ['poweroff'] has {machine}, which stands for the machine's name",
    ),
    command(
        "a power command with another word for its machine",
        '[poweroff, "{node}"]',
        "none of the words ['poweroff', '{node}'] has {machine}, which stands for the machine's name",
        "wake",
    ),
    command(
        "a program that is named by its machine",
        '["{machine}"]',
        "the program '{machine}' is named by {machine}; only its arguments may be",
    ),
    command(
        "a power command that does not exist",
        '[no-such-program, "{machine}"]',
        "there is no program no-such-program here that can be run",
    ),
    command(
        "a power command that is no program",
        '[/etc/passwd, "{machine}"]',
        "there is no program /etc/passwd here that can be run",
        "state",
    ),
    file(
        "power without its commands",
        "adapter: command\n",
        "sleep: missing; adapter 'command' needs sleep, wake and state",
    ),
    file(
        "power without the command that tells the state",
        "adapter: command\nsleep: [echo, '{machine}']\nwake: [echo, '{machine}']\n",
        "state: missing; adapter 'command' needs sleep, wake and state",
    ),
    emulated(
        "a power command of another adapter",
        "wake: [w, '{machine}']",
        "wake: is only for adapter 'command', not 'emulated'",
    ),
    file("an unknown adapter", "adapter: magic\n", "adapter: magic is not one of command, autoscaler, emulated"),
    file("no adapter", "keep: 1\n", "adapter: missing; one of command, autoscaler, emulated"),
    emulated("an unknown field of power", "slep: 1", f"slep: unknown field; known: {FIELDS}"),
    emulated("a field of power given twice", "keep: 1\nkeep: 2", "line 3: keep is given twice"),
    emulated("fewer than no nodes kept", "keep: -1", "keep: -1 is not a number of at least 0"),
    emulated(
        "fewer than no nodes of a type kept", "keep: {a100: -1}", "keep.a100: -1 is not a number of at least 0"
    ),
    emulated("negative watts", "idle_watts: -5", "idle_watts: -5 is not a number of at least 0"),
    emulated(
        "negative watts of a type", "asleep_watts: {t4: -5}", "asleep_watts.t4: -5 is not a number of at least 0"
    ),
    emulated("watts that are NaN", "idle_watts: .nan", "idle_watts: NaN is not a finite number"),
    emulated("no time to wake", "wake_limit_s: 0", "wake_limit_s: 0 is not a number above 0"),
    emulated("less than no time to sleep", "sleep_limit_s: -1", "sleep_limit_s: -1 is not a number above 0"),
    emulated("a command without time", "command_limit_s: 0", "command_limit_s: 0 is not a number above 0"),
    emulated("a boot that takes NaN", "boot_s: .nan", "boot_s: NaN is not a finite number"),
    emulated("no try", "tries: 0", "tries: 0 is not a number of at least 1"),
    emulated("a number that is a word", "boot_s: long", "boot_s: long is not a number"),
    emulated("a number that is yes", "boot_s: true", "boot_s: true is not a number"),
    emulated("nodes that are yes", "keep: true", "keep: true is not a whole number"),
    emulated("half a try", "tries: 1.5", "tries: 1.5 is not a whole number"),
    file("an empty power file", "", "the file is empty"),
    file("a list instead of power", "- a\n", "is not a mapping of fields, such as adapter: command"),
    file(
        "power that is no YAML",
        "adapter: [\n",
        "line 2: not YAML: expected the node content, but found '<stream end>'",
    ),
    (
        "a power file that is not there",
        Started("--power {dir}/nowhere.yaml"),
        "--power: {dir}/nowhere.yaml: cannot be read: No such file or directory",
    ),
    (
        "emulated machines of a real cluster",
        Started(power="adapter: emulated\n", of=("up", "--address", "none")),
        "--power: {dir}/power.yaml: adapter: emulated is only for --emulate",
    ),
]
