"""Bad traces, and the one line that the user of `coadapt simulate` reads for each."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coadapt.simulator.traces.readers import read_trace

MOST_S, MOST_GIB = 30.0, 1.0  # to refuse a trace, imports included
ENDLESS_BYTES = 10 * 2**30

SIA = "name,time,application,num_replicas,batch_size\na,5,cifar10,4,512\nb,9.5,bert,1,12\n"
HELIOS = "job_id,vc,gpu_num,submit_time,duration\n7,vcA,8,2020-09-01 00:00:03,97\n8,vcB,1,2020-09-01 00:01:03,0\n"
PAI = "job_id,arrival_s,service_sec,gpu_count\nj1,10,100,1\nj2,20,50,2\n"
GAVEL = "ResNet-18 (batch size 16)\tpython3 main.py\t--num_steps\t1\t100\t0.5\t1\n"
JOB = '{"id": "a", "submit_s": 0, "duration_s": 1}\n'
FORMATS = "gavel, synergy, jsonl, sia, copter, philly, helios, chronus, elasticflow, pai"


@dataclass(frozen=True)
class BadTrace:
    """A bad trace. `content`: of the file, or what writes it. `error`: the line, with `{path}` for the file."""

    what: str
    content: str | bytes | Callable[[Path], object]
    error: str
    name: str = "trace.csv"


def job(**fields: object) -> str:
    """Return a JSON line of a job with these fields."""
    return json.dumps({"id": "a", "submit_s": 0, "duration_s": 1} | fields) + "\n"


BAD_TRACES = [
    BadTrace("nothing", "", f"trace: {{path}} begins with '', as no known format does; name one: {FORMATS}"),
    BadTrace(
        "no known header",
        "x,y\n1,2\n",
        f"trace: {{path}} begins with 'x,y', as no known format does; name one: {FORMATS}",
    ),
    BadTrace("a folder", Path.mkdir, "trace: {path} does not exist or is no file"),
    BadTrace("only a header", SIA.split("\n")[0] + "\n", "{path}: no rows below the header"),
    BadTrace(
        "a column twice",
        SIA.replace("batch_size", "batch_size,time"),
        "{path}: the header has column 'time' twice",
    ),
    BadTrace("a line cut off", SIA + "c,12,ber", "{path}: line 4 ends before its last column"),
    BadTrace(
        "a line too long",
        PAI.replace("50,2", "50,2,7"),
        "{path}: line 3 has more than the 4 columns of the header",
    ),
    BadTrace(
        "packed and cut off",
        gzip.compress(PAI.encode() * 9999)[:-20],
        "{path}: cannot be read: Compressed file ended before the end-of-stream marker was reached",
        "trace.csv.gz",
    ),
    BadTrace("packed by name only", PAI, "{path}: cannot be read: Not a gzipped file (b'jo')", "trace.csv.gz"),
    BadTrace(
        "no text",
        bytes(range(128, 256)),
        "{path}: cannot be read: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte",
    ),
    BadTrace(
        "a time before the start",
        SIA.replace("9.5", "-1"),
        "{path}: line 3: time -1 is not accepted, must be a number of at least 0",
    ),
    BadTrace(
        "a time that is no number", SIA.replace("9.5", "soon"), "{path}: line 3: time 'soon' is not a number"
    ),
    BadTrace("a time missing", SIA.replace("9.5", ""), "{path}: line 3: time '' is not a number"),
    BadTrace(
        "NaN",
        SIA.replace("9.5", "nan"),
        "{path}: line 3: time nan is not accepted, must be a number of at least 0",
    ),
    BadTrace(
        "infinity",
        PAI.replace("50", "inf"),
        "{path}: line 3: service_sec inf is not accepted, must be a number of at least 0",
    ),
    BadTrace(
        "a time beyond all times",
        PAI.replace("20", "1e300"),
        "trace: job j2: submit_s 1e+300 is not accepted, must be from 0 to 1e+11 s",
    ),
    BadTrace(
        "nothing but jobs without a GPU",
        HELIOS.replace("vcA,8", "vcA,0").replace("vcB,1", "vcB,0.5"),
        "{path}: no job asks for a whole GPU in gpu_num; the first has 0",
    ),
    BadTrace(
        "less than no GPU",
        PAI.replace("50,2", "50,-1"),
        "{path}: line 3: gpu_count -1 is not accepted, must be a number of at least 0",
    ),
    BadTrace(
        "a job without a name",
        SIA.replace("b,9.5", " ,9.5"),
        "{path}: line 3: name is empty; every job needs a name of its own",
    ),
    BadTrace(
        "JSON without a name",
        job() + job(id=" "),
        "{path}: line 2: id is empty; every job needs a name of its own",
    ),
    BadTrace(
        "a header that lacks a column",
        "Name;time;num replicas\na;1;2\n",
        "trace: {path} begins with 'Name;time;num replicas', as no known format does (of sia it lacks "
        f"application); name one: {FORMATS}",
    ),
    BadTrace(
        "more GPUs than there are",
        PAI.replace("50,2", "50,1e30"),
        f"trace: job j2: gpus {int(1e30)} is not accepted, must be from 1 to 1e+06",
    ),
    BadTrace("an id twice", PAI.replace("j2", "j1"), "trace: job id 'j1' stands 2 times; ids must differ"),
    BadTrace(
        "an unknown category",
        "name,time,application,num_replicas,batch_size,category\na,0,bert,1,12,elastic\n",
        "{path}: line 2: category 'elastic'; accepted: adaptive, scale-gpus, rigid",
    ),
    BadTrace(
        "no date",
        HELIOS.replace("2020-09-01 00:01:03", "yesterday"),
        "{path}: line 3: submit_time 'yesterday' is no time like 2020-09-01 00:00:03",
    ),
    BadTrace(
        "a negative duration",
        HELIOS.replace(",97", ",-97"),
        "{path}: line 2: duration -97 is not accepted, must be a number of at least 0",
    ),
    BadTrace(
        "Gavel's with a field less",
        GAVEL + GAVEL.replace("0.5\t", ""),
        "{path}: line 2: 6 fields between tabs, must be 10 or 7",
    ),
    BadTrace(
        "Gavel's with no steps",
        GAVEL.replace("100", "0"),
        "{path}: line 1: total_steps 0 is not accepted, must be a whole number of at least 1",
    ),
    BadTrace(
        "JSON of another kind",
        job(gpus="many"),
        "{path}: line 1: gpus: Input should be a valid integer, unable to parse string as an integer",
    ),
    BadTrace(
        "JSON cut off",
        JOB + '{"id": "b", "subm',
        "{path}: line 2: the line: Invalid JSON: EOF while parsing a string at line 1 column 17",
    ),
    BadTrace(
        "JSON with NaN",
        job(submit_s=float("nan")),
        "trace: job a: submit_s nan is not accepted, must be from 0 to 1e+11 s",
    ),
    BadTrace(
        "JSON with an endless job",
        job(duration_s=float("inf")),
        "trace: job a: duration_s inf is not accepted, must be from 0 to 1e+11 s",
    ),
    BadTrace(
        "JSON with a negative wait",
        job(ready_after_s=-1),
        "trace: job a: ready_after_s -1.0 is not accepted, must be from 0 to 1e+11 s",
    ),
    BadTrace(
        "JSON with a negative batch",
        job(batch_size=-8),
        "trace: job a: batch_size -8 is not accepted, must be from 0 to 9.0072e+15",
    ),
    BadTrace(
        "JSON with a field misspelt",
        job(gpu=4),
        "{path}: line 1: gpu is no field of a job; accepted: id, submit_s, gpus, duration_s, application, "
        "batch_size, adaptivity, virtual_cluster, user, ready_after_s, max_gpus, model, steps, preemptible, "
        "profiles, name, cpus, state, waited_s, uses, restart_s, input, rewards, curve",
    ),
    BadTrace(
        "JSON with neither length nor application",
        '{"id": "a", "submit_s": 0}\n',
        "trace: job a has neither a duration nor an application nor a model",
    ),
]


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(ENDLESS_BYTES)


def _repeated(unit: bytes, start: bytes = b"") -> Callable[[Path], None]:
    """Return what writes 10 GiB as some 10 MB of gzip: several streams in a row are one file."""

    def write(path: Path) -> None:
        block = 1 << 26
        packed = gzip.compress(unit * (block // len(unit)))
        with path.open("wb") as file:
            file.write(gzip.compress(start))
            for _ in range(ENDLESS_BYTES // block):
                file.write(packed)

    return write


ENDLESS = [
    BadTrace("10 GiB of zero bytes", _sparse, "{path}: line 1 holds zero bytes: it is no text"),
    BadTrace(
        "10 GiB of zero bytes, packed",
        _repeated(b"\0"),
        "{path}: line 1 holds zero bytes: it is no text",
        "zeros.gz",
    ),
    BadTrace(
        "10 GiB without a line's end, packed",
        _repeated(b"x"),
        "{path}: line 1 is longer than 1048576 characters",
        "line.gz",
    ),
    BadTrace(
        "10 GiB of blank lines, packed",
        _repeated(b"\n", PAI.encode()),
        "{path}: line 1048579 ends 1048576 lines without anything",
        "blank.gz",
    ),
]


def _write(case: BadTrace, folder: Path) -> Path:
    path = folder / case.name
    if callable(case.content):
        case.content(path)
    else:
        path.write_bytes(case.content.encode() if isinstance(case.content, str) else case.content)
    return path


def refusal(case: BadTrace, folder: Path) -> str:
    """Return what reading a trace raises, or "" if it is read."""
    path = _write(case, folder)
    try:
        read_trace(path)
    except ValueError as error:
        return str(error).replace(str(path), "{path}")
    return ""


_READ = f"""
import resource, sys
from pathlib import Path
limit = int({MOST_GIB} * 2**30)
from coadapt.simulator.traces.readers import read_trace
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    read_trace(Path(sys.argv[1]))
except ValueError as error:
    print(error)
"""


def refusal_in_little_memory(case: BadTrace, folder: Path) -> str:
    """Return what `refusal` returns in a process with `MOST_GIB` of memory and `MOST_S` seconds."""
    path = _write(case, folder)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, timeout=MOST_S
        )
    except subprocess.TimeoutExpired:
        return f"nothing within {MOST_S:g} s"
    return (ended.stdout or ended.stderr).strip().replace(str(path), "{path}")
