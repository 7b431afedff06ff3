"""Malformed job files, each with the one line its user reads (issue figure 9, the part that needs no cluster).

`tests/client/test_bad_jobs.py` holds every row; `benchmarks/bad_input.py` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coadapt.client import jobfile
from coadapt.core.cluster import Cluster, Node

START = "name: demo\nscript: train.py\n"
SCRIPT = "import coadapt\n"
MIXED = Cluster((Node("n1", "a100", 4), Node("n2", "rtx", 4), Node("n3", "t4", 2), Node("n4", "t4", 2)))
SMALL = Cluster((Node("n1", "a100", 4, cpus=32.0, memory_gib=256.0),))
BARE = Cluster((Node("n1", "a100", 4, emulated=True),))  # states neither
# Ten levels of ten aliases each: 10^10 values if it were expanded.
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@dataclass(frozen=True)
class BadJob:
    """A job file that is wrong. `error` follows `job.yaml: `. Files lie beside it; a value "-> x" is a link.

    cluster: that it would be for.
    """

    what: str
    job: str | bytes
    error: str
    files: Mapping[str, str] = field(default_factory=lambda: {"train.py": SCRIPT})
    cluster: Cluster = MIXED


def training(text: str) -> str:
    return f"{START}training: {{{text}}}\n"


def resources(text: str) -> str:
    return f"{START}resources: {{{text}}}\n"


BAD_JOBS = [
    # YAML itself
    BadJob("empty file", "", "the file is empty; `coadapt schema` prints what a job file holds"),
    BadJob("a list", "- train.py\n", "a job file is a mapping of fields, not a list"),
    BadJob("plain text", "train.py\n", "a job file is a mapping of fields, not the text train.py"),
    BadJob("not YAML", "name: [demo\nscript: x", "line 2: not YAML: expected ',' or ']', but got ':'"),
    BadJob("tab indentation", "name: demo\n\tscript: x\n", "line 2: a tab; YAML is indented with spaces"),
    BadJob("duplicate key", START + "name: again\n", "line 3: name is given twice"),
    BadJob(
        "duplicate nested key",
        START + "resources:\n  min_gpus: 1\n  min_gpus: 2\n",
        "line 5: resources.min_gpus is given twice",
    ),
    BadJob("two documents", START + "---\n" + START, "line 3: a second document; a job file holds exactly one"),
    BadJob("not UTF-8", b"name: d\xe9mo\n", "byte 7 is not UTF-8 text; save the file as UTF-8"),
    BadJob("a binary file", b"\x7fELF\x00\x01", "the character at position 0 is not allowed in YAML"),
    BadJob("too large", "#" * 300_000, "262145 bytes is too large; at most 262144 bytes are accepted"),
    BadJob("YAML bomb", BOMB, "its aliases expand to more than 10000 values, which no job file needs"),
    BadJob("anchor in itself", "a: &a [*a]\n", "line 1: an anchor that contains itself"),
    BadJob("deep nesting", "[" * 5000, "line 1: nested more than 16 deep, which no job file needs"),
    BadJob(
        "code in a tag",
        "name: !!python/object/apply:os.system [id]\n",
        "line 1: the tag tag:yaml.org,2002:python/object/apply:os.system is not accepted; "
        "write plain text, numbers, lists and mappings",
    ),
    BadJob("key that is no text", "? [a, b]\n: 3\n", "line 1: a key must be text"),
    # fields
    BadJob(
        "an unknown tracker",
        START + "trackers: [tensorbored]\n",
        "trackers[0]: tensorbored is not one of mlflow, wandb",
    ),
    BadJob(
        "an event that nobody is told of",
        START + "notify: {to: [mine], events: [exploded]}\n",
        "notify.events[0]: exploded is not one of started, moved, waiting, trouble, succeeded, failed, cancelled",
    ),
    BadJob("nobody to tell", START + "notify: {to: []}\n", "notify.to: [] is not a list with at least 1 entry"),
    BadJob(
        "no script",
        "name: demo\n",
        "script: give either script, a Python file, or command, a program with its arguments",
    ),
    BadJob(
        "a fixed size with a batch to adapt",
        START + "elastic: false\ntraining: {initial_batch_size: 8, seed: 7}\n",
        "training.seed: 7 needs coadapt.prepare, which a plain job does not call",
    ),
    BadJob(
        "an elastic command without sizes",
        "name: demo\ncommand: [torchrun, train.py]\nelastic: true\n",
        "command: an elastic command names its sizes, as sizes: [1, 2, 4]; else elastic is false",
    ),
    BadJob(
        "a command and arguments beside it",
        "name: demo\ncommand: [torchrun, train.py]\nargs: [x]\n",
        "args: they are of a script; a command holds its own arguments",
    ),
    BadJob("unknown field", START + "scripts: x\n", "scripts: unknown field; did you mean script?"),
    BadJob(
        "unknown nested field", resources("max_gpu: 3"), "resources.max_gpu: unknown field; did you mean max_gpus?"
    ),
    BadJob(
        "bad name",
        "name: my job\nscript: train.py\n",
        'name: my job is not a name of 1 to 63 letters, digits, ".", "_" and "-" '
        "that starts with a letter or digit",
    ),
    BadJob("list instead of mapping", START + "resources: [4]\n", "resources: [4] is not a mapping"),
    BadJob("text for a number", resources("min_gpus: four"), "resources.min_gpus: four is not a whole number"),
    BadJob("fraction of a GPU", resources("min_gpus: 0.5"), "resources.min_gpus: 0.5 is not a whole number"),
    BadJob("zero GPUs", resources("min_gpus: 0"), "resources.min_gpus: 0 is not a number of at least 1"),
    BadJob(
        "too many GPUs",
        resources("max_gpus: 1e9"),
        "resources.max_gpus: 1000000000.0 is not a number of at most 1000000",
    ),
    BadJob("min > max", resources("min_gpus: 8, max_gpus: 4"), "resources.min_gpus: 8 is more than max_gpus 4"),
    BadJob("GPU type, not a list", resources("gpu_types: a100"), "resources.gpu_types: a100 is not a list"),
    BadJob(
        "empty list of GPU types",
        resources("gpu_types: []"),
        "resources.gpu_types: [] is not a list with at least 1 entry",
    ),
    BadJob(
        "replica wider than the job",
        resources("gpus_per_replica: 8, max_gpus: 4"),
        "resources.gpus_per_replica: 8 is more than the 4 GPUs the job may have",
    ),
    BadJob(
        "a sharded job without the GPUs of a replica",
        resources("processes_per_replica: gpu"),
        "resources.gpus_per_replica: not given; with processes_per_replica gpu it says over how many GPUs the "
        "model is sharded",
    ),
    BadJob(
        "a command with processes of a replica",
        START + "elastic: false\nresources: {gpus: 2, gpus_per_replica: 2, processes_per_replica: gpu}\n",
        "resources.processes_per_replica: gpu shards a model that coadapt.prepare is given, "
        "which a plain job does not call; see processes",
    ),
    BadJob(
        "as many processes as nobody offers",
        resources("gpus_per_replica: 4, processes_per_replica: 2"),
        "resources.processes_per_replica: 2 is not one of one, gpu",
    ),
    BadJob(
        "no replica size for a type",
        resources("gpus_per_replica: {a100: 2}, gpu_types: [a100, rtx]"),
        "resources.gpus_per_replica: no number for GPU type rtx of gpu_types",
    ),
    BadJob(
        "max batch < initial batch",
        training("initial_batch_size: 32, max_batch_size: 16"),
        "training.max_batch_size: 16 is less than initial_batch_size 32",
    ),
    BadJob(
        "largest local batch < smallest",
        training("min_local_batch_size: 8, max_local_batch_size: 4"),
        "training.max_local_batch_size: 4 is less than min_local_batch_size 8",
    ),
    BadJob(
        "local batch that is nothing",
        training("max_local_batch_size: {a100: 0}"),
        "training.max_local_batch_size.a100: 0 is not a number of at least 1",
    ),
    BadJob(
        "smallest step above the largest batch",
        START + "resources: {min_gpus: 8}\ntraining: {initial_batch_size: 4}\n",
        "training.min_local_batch_size: 1 on 8 GPUs makes a step of 8 samples, more than the largest batch size 4",
    ),
    BadJob(
        "batch that all GPUs cannot hold",
        START
        + "resources: {max_gpus: 2}\n"
        + "training: {initial_batch_size: 64, max_local_batch_size: 16, gradient_accumulation: false}\n",
        "training.max_local_batch_size: even on all allowed GPUs a step holds 32 samples, less than "
        "initial_batch_size 64; allow more GPUs or gradient_accumulation",
    ),
    BadJob(
        "batch limits that fit no GPU of the cluster",
        START + "training: {initial_batch_size: 64, max_local_batch_size: 8, gradient_accumulation: false}\n",
        "training.initial_batch_size: 64 fits no GPU type without gradient_accumulation; most samples in one "
        "pass: a100 32, rtx 32, t4 32",
    ),
    BadJob(
        "unknown adaptivity",
        training("adaptivity: ridgid"),
        "training.adaptivity: ridgid is not one of adaptive, strong-scaling, rigid; did you mean rigid?",
    ),
    BadJob(
        "rigid without count", training("adaptivity: rigid"), "resources.gpus: a rigid job needs a fixed GPU count"
    ),
    BadJob(
        "count without rigid",
        resources("gpus: 4"),
        "resources.gpus: 4 is only for rigid jobs; use min_gpus and max_gpus",
    ),
    BadJob(
        "batch adaptation of a rigid job",
        training("adaptivity: strong-scaling, initial_batch_size: 8, max_batch_size: 64"),
        "training.max_batch_size: 64 has no meaning for a strong-scaling job, whose batch size is fixed",
    ),
    BadJob(
        "unknown learning-rate rule",
        training("lr_scaling: adascales"),
        "training.lr_scaling: adascales is not one of auto, adascale, sqrt, linear, legw, none or "
        "module:function; did you mean adascale?",
    ),
    BadJob(
        "target without a bound",
        training("target: {metric: accuracy}"),
        "training.target: target needs exactly one of at_least and at_most",
    ),
    BadJob(
        "target that is not a number",
        training("target: {metric: accuracy, at_least: .nan}"),
        "training.target.at_least: NaN is not a finite number",
    ),
    BadJob(
        "negative report interval",
        training("report_interval_s: -1"),
        "training.report_interval_s: -1 is not a number above 0",
    ),
    BadJob(
        "relative checkpoint folder",
        training("checkpoint: {url: ckpt}"),
        "training.checkpoint.url: ckpt is a relative path; give an absolute path or a URL such as s3://bucket/dir",
    ),
    BadJob(
        "checkpoints that keep nothing",
        training("checkpoint: {keep: 0}"),
        "training.checkpoint.keep: 0 is not a number of at least 1",
    ),
    BadJob(
        "a worker's own variable",
        START + "env: {RANK: 0}\n",
        "env.RANK: set by coadapt for each worker and cannot be given",
    ),
    BadJob(
        "a name that is no variable",
        START + "env: {A=B: 1}\n",
        "env: 'A=B' is not a name of an environment variable",
    ),
    BadJob("an argument that is nothing", START + "args: [--lr, null]\n", "args[1]: an empty value is not text"),
    # folders and scripts
    BadJob(
        "no such folder",
        START + "working_dir: nowhere\n",
        "working_dir: {dir}/nowhere does not exist; it is relative to the job file",
    ),
    BadJob(
        "folder that is a file",
        START + "working_dir: train.py\n",
        "working_dir: {dir}/train.py is not a folder; it is relative to the job file",
    ),
    BadJob(
        "no such script",
        "name: demo\nscript: trian.py\n",
        "script: trian.py does not exist in working_dir {dir}; did you mean train.py?",
    ),
    BadJob(
        "script above the folder",
        "name: demo\nscript: ../train.py\n",
        "script: ../train.py is outside working_dir {dir}; only that folder is sent to the nodes",
    ),
    BadJob(
        "script by absolute path",
        "name: demo\nscript: /etc/hostname\n",
        "script: /etc/hostname is outside working_dir {dir}; only that folder is sent to the nodes",
    ),
    BadJob(
        "link that leaves the folder",
        START,
        "script: train.py is outside working_dir {dir}; only that folder is sent to the nodes",
        {"train.py": "-> /etc/hostname"},
    ),
    BadJob(
        "link to itself",
        START,
        "script: train.py is a symbolic link that leads nowhere",
        {"train.py": "-> train.py"},
    ),
    BadJob("script that is a folder", START, "script: train.py is not a file", {"train.py/x.py": ""}),
    BadJob(
        "shell script",
        "name: demo\nscript: train.sh\n",
        "script: train.sh is not a Python file (.py)",
        {"train.sh": ""},
    ),
    BadJob(
        "script that does not parse",
        START,
        "script: train.py is not valid Python, line 2: '(' was never closed",
        {"train.py": "import coadapt\nprint(\n"},
    ),
    # against a cluster of 4 a100, 4 rtx and 2 x 2 t4
    BadJob(
        "unknown GPU type",
        resources("gpu_types: [a1000]"),
        "resources.gpu_types: a1000 is not a GPU type of this cluster; did you mean a100?",
    ),
    BadJob(
        "GPU type of another vendor",
        resources("gpu_types: [mi300]"),
        "resources.gpu_types: mi300 is not a GPU type of this cluster; known: a100, rtx, t4",
    ),
    BadJob(
        "sizes of an unknown GPU type",
        START + "sizes: {v100: [1]}\n",
        "sizes: v100 is not a GPU type of this cluster; did you mean a100?",
    ),
    BadJob(
        "sizes that are too large",
        START + "sizes: [64]\n",
        "sizes: 64 is more than the cluster has of any one type (a100 4, rtx 4, t4 4)",
    ),
    BadJob(
        "more GPUs than there are",
        resources("min_gpus: 8"),
        "resources.min_gpus: 8 is more than the cluster has of any one type (a100 4, rtx 4, t4 4)",
    ),
    BadJob(
        "replica that no node holds",
        resources("gpus_per_replica: 4, gpu_types: [t4]"),
        "resources.gpus_per_replica: 4 fits no node; GPUs of the largest nodes: t4 2",
    ),
    BadJob(
        "reservation of an unknown type",
        START + "reservation: {gpu_type: h100, gpus: 1}\n",
        "reservation.gpu_type: h100 is not a GPU type of this cluster; did you mean a100?",
    ),
    BadJob(
        "reservation of too many",
        START + "reservation: {gpu_type: a100, gpus: 5}\n",
        "reservation.gpus: 5 is more than the 4 a100",
    ),
    BadJob(
        "speed of an unknown model",
        START + "emulation: {profile: cifar100}\n",
        "emulation.profile: cifar100 is not a measured model; did you mean cifar10?",
    ),
    BadJob(
        "CPUs below 0",
        START + "resources: {cpus_per_gpu: -1}\n",
        "resources.cpus_per_gpu: -1 is not a number of at least 0",
    ),
    BadJob(
        "more CPUs than a node has",
        START + "resources: {cpus_per_gpu: 33}\n",
        "resources.cpus_per_gpu: 33 is more than any node has for each GPU of a replica; most that are accepted: "
        "a100 32",
        cluster=SMALL,
    ),
    BadJob(
        "more memory than a node has",
        START + "resources: {memory_gib_per_gpu: 300}\n",
        "resources.memory_gib_per_gpu: 300 is more than any node has for each GPU of a replica; most that are "
        "accepted: a100 256",
        cluster=SMALL,
    ),
    BadJob(
        "an input profile on nodes without CPUs",
        START + "emulation: {input: {cpus: [1], prepared: [5]}}\n",
        "emulation.input: no emulated node has a CPU and memory for each of its GPUs; start nodes with both, as "
        "by --emulate '2x t4:4/16/128'",
        cluster=BARE,
    ),
    BadJob(
        "memory that is no number",
        START + "resources: {memory_gib_per_gpu: .nan}\n",
        "resources.memory_gib_per_gpu: NaN is not a finite number",
    ),
    BadJob(
        "an input profile without its axis",
        START + "emulation: {input: {prepared: [1]}}\n",
        "emulation.input.cpus: missing; numbers of CPUs of one GPU, ascending",
    ),
    BadJob(
        "an input profile unlike its axis",
        START + "emulation: {input: {cpus: [1, 2], prepared: [5]}}\n",
        "emulation.input.prepared: has 1 rates for 2 CPU counts; one for each is accepted",
    ),
    BadJob(
        "an axis that does not ascend",
        START + "emulation: {input: {cpus: [2, 1], prepared: [5, 6]}}\n",
        "emulation.input.cpus: [2.0, 1.0] does not ascend; each number must be above the one before",
    ),
    BadJob(
        "a negative input profile",
        START + "emulation: {input: {cpus: [1, 2], prepared: [5, -6]}}\n",
        "emulation.input.prepared[1]: -6 is not a number above 0",
    ),
    BadJob(
        "an input profile with NaN",
        START + "emulation: {input: {cpus: [1], prepared: [.nan]}}\n",
        "emulation.input.prepared[0]: NaN is not a finite number",
    ),
    # teams, priorities and limits
    BadJob(
        "an unknown priority",
        START + "priority: soon\n",
        "priority: soon is not one of low, normal, high, urgent",
    ),
    BadJob("a weight of more than others", START + "weight: 2\n", "weight: 2 is not a number of at most 1"),
    BadJob("a weight of nothing", START + "weight: 0\n", "weight: 0 is not a number of at least 0.01"),
    # trials that train as one
    BadJob(
        "two trials with one number",
        START + "trials: [{values: {lr: 1}}, {values: {lr: 2}}]\n",
        "trials: number 0 is given twice",
    ),
    BadJob(
        "several trials that adapt",
        START + "trials: [{number: 1}, {number: 2}]\ntraining: {adaptivity: adaptive}\nresources: {max_gpus: 4}\n",
        "trials: 2 train as one on one GPU; training.adaptivity rigid and resources.gpus 1 are expected",
    ),
    BadJob(
        "trials of a program that never asks",
        START + "elastic: false\ntrials: [{values: {lr: 1}}]\n",
        "trials: it is for a script that calls coadapt.prepare, and this is a plain job",
    ),
    BadJob(
        "an end of trials where there are none",
        START + "until_epoch: 3\n",
        "until_epoch: 3 is for trials that train as one",
    ),
    BadJob(
        "a trial of no job",
        START + "trials: [{number: 1, from_trial: 2}]\n",
        "trials[0].from_trial: 2 is of a job, and from_job is not given",
    ),
    BadJob("a width of nothing", START + "shrink: 0\n", "shrink: 0 is not a number of at least 1"),
    BadJob(
        "a team that is no name",
        START + "team: the vision team\n",
        'team: the vision team is not a name of 1 to 63 letters, digits, ".", "_" and "-" that starts with '
        "a letter or digit",
    ),
    BadJob(
        "a step that is no number",
        START + "resume_from: train-3@last\n",
        "resume_from: train-3@last is not JOB or JOB@STEP, such as train-3@500",
    ),
    BadJob(
        "a job to start after that is no name",
        START + "after: [a b]\n",
        "after[0]: a b is not the id or the name of a job",
    ),
    BadJob(
        "a wait before a retry in the past",
        START + "retry: {wait: -10m}\n",
        "retry.wait: -10m is in the past; a span above 0 is accepted, such as 24h",
    ),
    BadJob(
        "an array of 100,000 jobs",
        START + "args: ['{a}{b}{c}']\narray: {grid: "
        f"{{a: {list('0123456789')}, b: {['1'] * 100}, c: {['1'] * 100}}}}}\n",
        "array: has 100000 jobs; at most 1000 are accepted",
    ),
    BadJob(
        "an array without values",
        START + "array: {grid: {}}\n",
        "array: grid or values: exactly one of them is accepted, and not empty",
    ),
    BadJob(
        "an array whose values go nowhere",
        START + "args: ['{lr}']\narray: {grid: {lr: [1], seed: [1, 2]}}\n",
        "array: {seed} stands in no args, command or env, so its values do nothing",
    ),
    BadJob(
        "an array whose entries differ",
        START + "args: ['{a}']\narray: {values: [{a: 1}, {b: 1}]}\n",
        "array.values: each entry has to name the same values",
    ),
    BadJob(
        "a time limit in the past",
        START + "time_limit: -1h\n",
        "time_limit: -1h is in the past; a span above 0 is accepted, such as 24h",
    ),
    BadJob(
        "a time limit that is no span",
        START + "time_limit: until monday\n",
        "time_limit: until monday is no span of time; it is seconds, or a number and s, m, h or d, as in 10m",
    ),
]


def one_line(case: BadJob, folder: Path) -> str:
    """Write a case to `folder`. Return what its user reads, or "" if nothing was found wrong."""
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)
    job = folder / "job.yaml"
    job.write_bytes(case.job.encode() if isinstance(case.job, str) else case.job)
    try:
        spec = jobfile.load(job)
    except jobfile.JobFileError as error:
        return str(error)
    return "\n".join(f"{job}: {problem}" for problem in jobfile.misfits(spec, case.cluster))


# `coadapt up --emulate TEXT` and its one line.
BAD_CLUSTERS = {
    "": "emulate: no nodes; write for example '1x a100:4, 2x t4:4'",
    "4": "emulate: '4' is not of the form '2x t4:4' (nodes x GPU type : GPUs per node), "
    "'2x t4:4/16/128' (GPUs/CPUs/GiB) or '2x t4:4@pool'",
    "2x h100:4": "emulate: GPU type 'h100' is unknown; known: a100, quad, rtx, t4, v100",
    "0x t4:4": "emulate: '0x t4:4' asks for 0 nodes; accepted: 1 to 32",
    "1x t4:0": "emulate: '1x t4:0' asks for 0 GPUs per node; accepted: 1 to 64",
    "1x t4:1000": "emulate: '1x t4:1000' asks for 1000 GPUs per node; accepted: 1 to 64",
    "1x t4:4/0/500": "emulate: '1x t4:4/0/500' asks for 0 CPUs and 500 GiB per node; accepted: more than 0, up to "
    "4096 CPUs and 1000000 GiB",
    "1x t4:4/24": "emulate: '1x t4:4/24' is not of the form '2x t4:4' (nodes x GPU type : GPUs per node), "
    "'2x t4:4/16/128' (GPUs/CPUs/GiB) or '2x t4:4@pool'",
    "30x t4:1, 30x rtx:1": "emulate: 60 nodes in all; at most 32 fit on one machine",
}
