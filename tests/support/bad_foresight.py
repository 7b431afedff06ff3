"""What can be wrong with foresight, each with the one sentence that its user reads.

`tests/cli/test_bad_foresight.py` holds every row; `benchmarks/bad_input.py` prints them. What is
wrong with a power file stands in `bad_power_files.py`, with a scaling file in `bad_scaling_files.py`, and with
forecasts of teams' jobs in `bad_team_load.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coadapt.estimators.job_history import EndedJob, SubmittedJob
from coadapt.scheduler.services.contract import NodeCounts, NodeKind
from coadapt.scheduler.services.durations import Durations
from coadapt.scheduler.services.energy import Energy

from tests.support.answers import Both, CommandedWorld, PoolJob, Powered, SeriesFile, Simulated, Told, Way
from tests.support.bad_power_files import BAD_POWER_FILES
from tests.support.bad_scaling_files import BAD_SCALING_FILES
from tests.support.bad_team_load import BAD_TEAM_LOAD


@dataclass(frozen=True)
class BadForesight:
    """What is wrong, how a user reaches it, and the sentence. {dir} stands for the folder of the user's files."""

    what: str
    reached: Way
    error: str


def service(name: str, option: str, value: str, wanted: str) -> BadForesight:
    """Return the row of one option."""
    return BadForesight(
        f"{name}: {option} {value}",
        Both(f"--service {name} --service-option '{name}.{option}={value}'"),
        f"--service-option: service {name}: {option}: {SHOWN.get(value, value)} is not accepted, must be {wanted}",
    )


def policy(name: str, option: str, value: str, wanted: str) -> BadForesight:
    return BadForesight(
        f"{name}: {option} {value}",
        Both(f"--policy-option '{option}={value}'", name),
        f"--policy-option: policy {name}: {option}: {SHOWN.get(value, value)} is not accepted, must be {wanted}",
    )


SHOWN = {"NaN": "nan", "Infinity": "inf", "null": "None", "true": "True"} | {
    text: repr(text)
    for text in ("", "much", "dear", "guess", "mars", "sunday", "theirs", "most")  # no JSON, so it stays text
}
SHARE, COUNT, AMOUNT = "a number from 0 to 1", "a whole number of at least 0", "a number of at least 0"
SHARES = [
    service("durations", option, value, SHARE)
    for option, values in {
        "lambda": ("1.5", "-0.1", "NaN", "Infinity", "much", "", "null", "true"),
        "decay": ("2", "-1", "NaN", "true"),
        "similarity": ("1.01", "-0.1", "NaN", "[0.5]"),
    }.items()
    for value in values
]
AMOUNTS = [
    service("energy", "buffer", "-1", COUNT),
    service("energy", "buffer", "0.5", COUNT),
    service("energy", "buffer", "NaN", COUNT),
    service("energy", "buffer", "true", COUNT),
    service("energy", "least_decrease", "0", "a whole number of at least 1"),
    service("energy", "hold_s", "-1", AMOUNT),
    service("energy", "drop_seen", "-0.5", AMOUNT),
    service("energy", "drop_seen", "NaN", AMOUNT),
    service("energy", "drop_foreseen", "-1", AMOUNT),
    service("energy", "drop_foreseen", "NaN", AMOUNT),
    service("energy", "wakes_per_day", "-1", "a number above 0"),
    service("energy", "wakes_per_day", "0", "a number above 0"),
    service("energy", "history_s", "-600", "a number of at least 600"),
    service("energy", "future_s", "36000", "a number from 600 to 18000"),
    service("energy", "seed", "-1", COUNT),
    service("energy", "boot_s", "-1", "a number above 0"),
    service("energy", "rule", "guess", "one of peak, trend, recent"),
    service("energy", "preset", "mars", "one of venus, earth, saturn, uranus, philly"),
    service("energy", "holidays", "sunday", "a list"),
    BadForesight(
        "a holiday that is no date",
        Both("""--service energy --service-option 'energy.holidays=["sunday"]'"""),
        "--service-option: service energy: holidays.0: 'sunday' is not accepted, must be a date, "
        "such as 2026-12-25",
    ),
    service("durations", "refit_h", "0", "a number above 0"),
    service("durations", "most_jobs", "1", "a whole number of at least 1000"),
    service("durations", "form", "theirs", "one of ours, published"),
    service("durations", "utc_offset_h", "15", "a number from -14 to 14"),
    *(
        policy(name, "gpu_price", value, AMOUNT)
        for name in ("sia", "coadapt")
        for value in ("-0.1", "NaN", "Infinity", "dear", "true")
    ),
    policy("qssf", "patience_h", "-1", AMOUNT),
    policy("qssf", "patience_h", "NaN", AMOUNT),
    policy("qssf", "backfill", "most", "one of none, fill, reserve"),
    *(
        BadForesight(
            f"a boot of {value} s",
            Simulated(f"--boot {value}"),
            f"--boot: {float(value)} must be 0 seconds or more, and finite",
        )
        for value in ("-1", "nan", "inf")
    ),
]

NEW = SubmittedJob("new", "ann", "train", "", 1, 0.0, 1500.0)
T4 = NodeKind("", "t4")


def foretell_the_past() -> None:
    service = Durations()
    service.observe(EndedJob(replace(NEW, id="a", submitted_s=0.0), 5000.0, 60.0))
    service.foretell(NEW)


def count(*counts: tuple[float, int, int]) -> None:
    service = Energy()
    for at_s, running, total in counts:
        service.observe(NodeCounts(at_s, {T4: running}, {T4: total}))


HISTORIES = [
    BadForesight(
        "a history that goes on after the job asked about",
        Told("the service durations, asked too late", foretell_the_past),
        "history: goes on to 5000 s, after job new was submitted at 1500 s; only jobs that "
        "ended before are accepted",
    ),
    BadForesight(
        "an end before the submission",
        Told("the service durations, told of an end", lambda: EndedJob(NEW, 1000.0, 60.0)),
        "ended_s: 1000.0 of job new is not accepted, must be 1500.0 or later, when it was submitted",
    ),
    BadForesight(
        "an end at no time",
        Told("the service durations, told of an end", lambda: EndedJob(NEW, float("nan"), 60.0)),
        "ended_s: nan is not accepted, must be finite and 0 or more",
    ),
    BadForesight(
        "a length below 0",
        Told("the service durations, told of an end", lambda: EndedJob(NEW, 2000.0, -1.0)),
        "trained_s: -1.0 is not accepted, must be finite and 0 or more",
    ),
    BadForesight(
        "a submission at no time",
        Told("the service durations, told of a job", lambda: replace(NEW, submitted_s=float("inf"))),
        "submitted_s: inf is not accepted, must be finite and 0 or more",
    ),
    BadForesight(
        "node counts of a clock that was set back",
        Told("the service energy, told of counts", lambda: count((600.0, 1, 2), (0.0, 1, 2))),
        "node counts: at_s: 0.0 is not accepted, must be 600.0 or later",
    ),
    BadForesight(
        "more nodes counted with jobs than there are",
        Told("the service energy, told of counts", lambda: count((600.0, 3, 2))),
        "node counts: 3 running of 2 is not accepted, must be from 0 to all",
    ),
]


def estimated(what: str, text: str, error: str) -> BadForesight:
    return BadForesight(
        what,
        Simulated("--lengths estimated --estimates {dir}/estimates.csv", files={"estimates.csv": text}),
        f"{{dir}}/estimates.csv: {error}",
    )


HEAD = "job_id,estimate_s\n"
NOT_AMOUNT = f"is not accepted, must be {AMOUNT}"
NOT_BOTH = "--estimates: a file of estimates goes with --lengths estimated, and the other way"
ESTIMATES = [
    estimated("no estimate of a job", f"{HEAD}a,1\n", "job 'b' has no estimate"),
    estimated(
        "an estimate that is negative",
        f"{HEAD}a,1\nb,-2\n",
        f"line 3: estimate_s -2 {NOT_AMOUNT}",
    ),
    estimated(
        "an estimate that is NaN",
        f"{HEAD}a,1\nb,nan\n",
        f"line 3: estimate_s nan {NOT_AMOUNT}",
    ),
    estimated(
        "an estimate that is infinite",
        f"{HEAD}a,1\nb,inf\n",
        f"line 3: estimate_s inf {NOT_AMOUNT}",
    ),
    estimated(
        "an estimate that is no number", f"{HEAD}a,1\nb,soon\n", "line 3: estimate_s 'soon' is not a number"
    ),
    estimated("an empty estimate", f"{HEAD}a,1\nb,\n", "line 3: estimate_s '' is not a number"),
    estimated(
        "an estimate of a job that is not there", f"{HEAD}a,1\nb,2\nc,3\n", "line 4: job 'c' is not in the trace"
    ),
    estimated("two estimates of a job", f"{HEAD}a,1\nb,2\na,3\n", "job 'a' has 2 estimates; one is accepted"),
    estimated(
        "an estimate of a job without a name",
        f"{HEAD}a,1\n,2\n",
        "line 3: job_id is empty; every job needs a name of its own",
    ),
    estimated("estimates without jobs", HEAD, "no rows below the header"),
    estimated(
        "a file without estimates",
        "job_id,guess\na,1\nb,2\n",
        "column 'estimate_s' is missing; the header has job_id, guess",
    ),
    estimated(
        "a file without jobs",
        "job,estimate_s\na,1\nb,2\n",
        "column 'job_id' is missing; the header has job, estimate_s",
    ),
    BadForesight(
        "a file of estimates that is not there",
        Simulated("--lengths estimated --estimates {dir}/nowhere.csv"),
        "{dir}/nowhere.csv: cannot be read: No such file or directory",
    ),
    BadForesight("estimated lengths without a file", Simulated("--lengths estimated"), NOT_BOTH),
    BadForesight("a file of estimates for other lengths", Simulated("--estimates {dir}/trace.jsonl"), NOT_BOTH),
    BadForesight(
        "lengths of an unknown kind",
        Simulated("--lengths guessed"),
        "--lengths: 'guessed'; accepted: told, learned, unknown, foretold, perturbed, estimated, measured",
    ),
]


def of_pools(*jobs: tuple[str, int, str]) -> str:
    """Return a trace of jobs (id, GPUs, virtual cluster)."""
    line = '{{"id": "{}", "submit_s": 0, "duration_s": 60, "gpus": {}, "virtual_cluster": "{}"}}\n'
    return "".join(line.format(*job) for job in jobs)


TOO_LARGE = of_pools(("a", 16, "x"), ("b", 1, "x"), ("c", 16, "y"))
POOLS = [
    *(
        BadForesight(
            f"a job that its VC can never hold, under {name}",
            Simulated(trace=TOO_LARGE, cluster="1x any:8@x, 4x any:8@y", policy=name),
            f"no job runs under {name} and none is to come; waiting: 1, first a (asks for 16 GPUs); "
            "pool x has at most 8 GPUs of one type, or the policy gives them none",
        )
        for name in ("qssf", "sjf", "srtf", "fifo")
    ),
    BadForesight(
        "a job of a VC that has no nodes",
        Simulated(trace=of_pools(("a", 1, "x"), ("b", 1, "z")), cluster="1x any:8@x"),
        "--trace: job b is of pool 'z'; the cluster has x",
    ),
    BadForesight(
        "a job without a VC where all nodes are of one",
        Simulated(trace=of_pools(("a", 1, "x"), ("b", 1, "")), cluster="1x any:8@x"),
        "--trace: job b names no pool; the cluster has x",
    ),
    BadForesight(
        "a live job that its pool can never hold",
        PoolJob("pool: lab\nresources: {min_gpus: 16}\n"),
        "{dir}/job.yaml: resources.min_gpus: 16 is more than pool lab has of any one type (a100 8)",
    ),
    BadForesight(
        "a live job of an unknown pool",
        PoolJob("pool: lap\n"),
        "{dir}/job.yaml: pool: lap is not a pool of this cluster; did you mean lab?",
    ),
    BadForesight(
        "a live job without a pool where all nodes are of one",
        PoolJob(""),
        "{dir}/job.yaml: pool: every node of this cluster belongs to a pool; name one of big, lab",
    ),
]

DURATION_OPTIONS = "form, model, corrections, lambda, decay, similarity, refit_h, most_jobs, utc_offset_h, seed"
NAMES = [
    BadForesight(
        "an unknown service",
        Both("--service duratoins"),
        "--service: 'duratoins' is unknown; accepted: arrivals, durations, energy, team_load",
    ),
    BadForesight(
        "a service given twice",
        Both("--service durations --service durations"),
        "--service: durations is given twice; each is accepted once",
    ),
    BadForesight(
        "an unknown option of a service",
        Both("--service durations --service-option durations.dcay=1"),
        f"--service-option: service durations: option 'dcay' is unknown; accepted: {DURATION_OPTIONS}",
    ),
    BadForesight(
        "an option by its name in the code",
        Both("--service durations --service-option durations.lambda_=1"),
        f"--service-option: service durations: option 'lambda_' is unknown; accepted: {DURATION_OPTIONS}",
    ),
    BadForesight(
        "an option of a service given twice",
        Both("--service durations --service-option durations.decay=1 --service-option durations.decay=0.5"),
        "--service-option: durations.decay is given twice; each is accepted once",
    ),
    BadForesight(
        "an option of a service that is not named",
        Both("--service energy --service-option durations.decay=1"),
        "--service-option: durations.decay=1 is of service durations, which --service does not name",
    ),
    BadForesight(
        "an option without its service",
        Both("--service durations --service-option decay=1"),
        "--service-option: decay=1 is not of the form NAME.KEY=VALUE",
    ),
    BadForesight(
        "an option of a service without a value",
        Both("--service durations --service-option durations.decay"),
        "--service-option: durations.decay is not of the form NAME.KEY=VALUE",
    ),
    BadForesight(
        "an unknown option of a policy",
        Both("--policy-option backfil=fill"),
        "--policy-option: policy qssf: option 'backfil' is unknown; accepted: provisioning, saturation, "
        "leftovers, type_blind, backfill, patience_h",
    ),
    BadForesight(
        "an option of a policy given twice",
        Both("--policy-option gpu_price=1 --policy-option gpu_price=2", "sia"),
        "--policy-option: gpu_price is given twice; each is accepted once",
    ),
]

SERIES_HEAD = "time,active,total\n"
DAY = "2017-10-03 00:"


def series(what: str, rows: str, error: str, head: str = SERIES_HEAD) -> BadForesight:
    return BadForesight(what, SeriesFile(head + rows), f"{{dir}}/nodes.csv: {error}")


def minutes(*active: int) -> str:
    """Return rows of 420 nodes, one a minute from midnight on."""
    return "".join(f"2017-10-03 {n // 60:02}:{n % 60:02}:00,{some},420\n" for n, some in enumerate(active))


UNKNOWN = "as there is no row, or as 0 ran right after many: what ran before is taken to go on"
VENUS = (
    "time,submit_job_all,start_job_all,end_job_all,submit_gpu_job,start_gpu_job,end_gpu_job,submit_gpu_num,"
    "start_gpu_num,end_gpu_num\n"
)
SERIES = [
    series(
        "a node series that is unordered",
        f"{DAY}05:00,3,4\n{DAY}07:00,3,4\n{DAY}06:00,3,4\n",
        "line 4: time 2017-10-03 00:06:00 is not accepted, must be after 2017-10-03 00:07:00 of the row before",
    ),
    series(
        "a node series with a time twice",
        f"{DAY}05:00,3,4\n{DAY}05:00,3,4\n",
        "line 3: time 2017-10-03 00:05:00 is not accepted, must be after 2017-10-03 00:05:00 of the row before",
    ),
    series(
        "a node series with more running than there are",
        f"{DAY}05:00,3,4\n{DAY}06:00,5,4\n",
        "line 3: active 5 is not accepted, must be at most the 4 of total",
    ),
    series(
        "a node series with less than nothing running",
        f"{DAY}05:00,-1,4\n",
        "line 2: active -1 is not accepted, must be a whole number of at least 0",
    ),
    series(
        "a node series with NaN",
        f"{DAY}05:00,3,nan\n",
        "line 2: total nan is not accepted, must be a whole number of at least 0",
    ),
    series(
        "a node series with half a node",
        f"{DAY}05:00,2.5,4\n",
        "line 2: active 2.5 is not accepted, must be a whole number of at least 0",
    ),
    series("a node series without a count", f"{DAY}05:00,,4\n", "line 2: active '' is not a number"),
    series(
        "a node series at no time",
        "soon,3,4\n",
        "line 2: time 'soon' is no time like 2020-09-01 00:00:03",
    ),
    series("a node series of nothing", "", "no rows below the header"),
    series(
        "a node series with holes",
        f"{DAY}05:00,3,4\n{DAY}35:00,3,4\n",
        f"2 of 4 times of ten minutes are unknown, {UNKNOWN}",
    ),
    series(
        "minutes of 0 while the monitor was away",
        minutes(*[300] * 10, *[0] * 20, *[290] * 10),
        f"2 of 4 times of ten minutes are unknown, {UNKNOWN}",
    ),
    series(
        "Venus' throughput as a source of node counts",
        "2020-04-01 00:00:00,6,6,4,3,3,2,3,3,2\n",
        f"column 'active' is missing; the header has {VENUS.strip().replace(',', ', ')}",
        VENUS,
    ),
]

JOB_FIELDS = (
    "id, submit_s, gpus, duration_s, application, batch_size, adaptivity, virtual_cluster, user, ready_after_s, "
    "max_gpus, model, steps, preemptible, profiles, name, cpus, state, waited_s, uses, restart_s, "
    "input, rewards, curve"
)
FEATURES = [
    BadForesight(
        "the end of a job as something known of it",
        Simulated("--service durations", trace='{"id": "a", "submit_s": 0, "duration_s": 60, "ended_s": 60}\n'),
        f"{{dir}}/trace.jsonl: line 1: ended_s is no field of a job; accepted: {JOB_FIELDS}",
    ),
    BadForesight(
        "final states as features",
        Both("--service durations --service-option 'durations.features=[\"state\"]'"),
        f"--service-option: service durations: option 'features' is unknown; accepted: {DURATION_OPTIONS}",
    ),
]

LIMITS = "sleep_limit_s: 100\nwake_limit_s: 200\nboot_s: 20\ntries: 1\n"
WORKS = {
    "sleep": '[echo, "{machine}"]',
    "wake": '[echo, "{machine}"]',
    "state": '[echo, "off", "{machine}"]',
}
HANGS = '[sh, -c, "sleep 600", "{machine}"]'
FAILS = '[sh, -c, "echo no route to host; exit 3", "{machine}"]'


def commands(limit_s: float = 10.0, **words: str) -> str:
    """Return a power file whose commands work, but for these. `limit_s`: after which each is killed."""
    lines = [f"{verb}: {text}" for verb, text in {**WORKS, **words}.items()]
    return "\n".join(["adapter: command", *lines, f"command_limit_s: {limit_s}", LIMITS])


def until_told(world: CommandedWorld, seconds: float) -> None:
    """Let time pass, so many seconds a tick, until something more is told of a machine."""
    before = world.told()
    for _ in range(50):
        world.tick(seconds)
        if world.told() != before:
            return
    raise AssertionError(f"nothing is told after {before[-1]}")


def woken(world: CommandedWorld) -> None:
    """Let m0 sleep and wake it; its node never comes back."""
    world.fall_asleep()
    world.order("wake", "m0")
    until_told(world, 10.0)


def slept(world: CommandedWorld) -> None:
    """Put m0 to sleep; its node stays."""
    world.order("sleep", "m0")
    until_told(world, 20.0)


def gone(world: CommandedWorld) -> None:
    """Put m0 to sleep; its node goes as it should."""
    world.order("sleep", "m0")
    world.tick()
    world.away.add("m0")
    until_told(world, 20.0)


def two_of_one_name(world: CommandedWorld) -> None:
    world.nodes["m1"] = replace(world.nodes["m1"], machine="m0")
    world.order("sleep", "m0")


def without_a_name(world: CommandedWorld) -> None:
    world.nodes["m1"] = replace(world.nodes["m1"], machine="")
    world.order("sleep", "n1")


def with_other_gpus(world: CommandedWorld) -> None:
    world.fall_asleep()
    world.order("wake", "m0")
    world.tick()
    world.come_back("m0", "n7", "t4")
    world.tick(9.0)


MACHINES = [
    BadForesight(
        "a power command that hangs",
        Powered(
            "coadapt node wake m0",
            commands(wake=HANGS, limit_s=0.5),
            woken,
        ),
        "m0 has failed: it could not be woken: wake: sh did not end in 0.5 s and was killed",
    ),
    BadForesight(
        "a power command that fails",
        Powered("coadapt node wake m0", commands(wake=FAILS), woken),
        "m0 has failed: it could not be woken: wake: sh ended with status 3: no route to host",
    ),
    BadForesight(
        "a power command that fails to power off",
        Powered("coadapt node sleep m0", commands(sleep=FAILS), slept),
        "m0 stays on: it could not be powered off: sleep: sh ended with status 3: no route to host",
    ),
    BadForesight(
        "a machine that is said to be off and is not",
        Powered("coadapt node sleep m0", commands(), slept),
        "m0 stays on: it was said to be off, and its node still answers",
    ),
    BadForesight(
        "a machine that is said to be on and is not",
        Powered("coadapt node sleep m0", commands(state='[echo, "on", "{machine}"]'), gone),
        "m0 is woken: its node is gone, and it is still on",
    ),
    BadForesight(
        "a machine whose state nobody tells",
        Powered("coadapt node sleep m0", commands(state='[echo, maybe, "{machine}"]'), gone),
        "m0 is woken: its node is gone, and its state is not known: state: it printed neither on nor off: "
        "maybe m0",
    ),
    BadForesight(
        "a machine that is said to wake and does not",
        Powered("coadapt node wake m0", commands(), woken),
        "m0 has failed: it did not come back in 200 s",
    ),
    BadForesight(
        "two machines of one name",
        Powered("coadapt node sleep m0", commands(), two_of_one_name),
        "m0 is not powered off: 2 nodes have this machine name; the label coadapt.io/machine gives each its own",
    ),
    BadForesight(
        "a machine without a name",
        Powered("coadapt node sleep n1", commands(), without_a_name),
        "n1 is not powered off: its node has neither a host name nor the label coadapt.io/machine, by which it "
        "could be woken",
    ),
    BadForesight(
        "a machine that comes back with other GPUs",
        Powered("coadapt node wake m0", commands(), with_other_gpus),
        "m0 is awake after 10 s; it has 4 GPUs of type t4 now, and had 4 GPUs of type a100",
    ),
]

BAD_FORESIGHT = [
    *SHARES,
    *AMOUNTS,
    *HISTORIES,
    *ESTIMATES,
    *POOLS,
    *NAMES,
    *(BadForesight(*row) for row in BAD_POWER_FILES),
    *(BadForesight(*row) for row in BAD_SCALING_FILES),
    *(BadForesight(*row) for row in BAD_TEAM_LOAD),
    *MACHINES,
    *SERIES,
    *FEATURES,
]
