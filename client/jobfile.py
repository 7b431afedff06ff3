"""Job files: YAML -> `JobSpec`, and what is wrong with one in one sentence per problem.

A sentence names the file, the field, the value and what is accepted:
`job.yaml: training.max_batch_size: 16 is less than initial_batch_size 32`.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ..core import safe_yaml
from ..core.cluster import Cluster
from ..core.doors import NO_PROGRAM
from ..core.emulated_nodes import PACE_PROFILES
from ..core.job import JobSpec
from ..core.job_limits import refusals
from ..core.refused_values import accepted, choices, one_line, shown

SCHEMA_PATH = Path(__file__).with_name("job_schema.json")

# Fields that are text whatever their values look like: `args: [--lr, 0.10]` passes "0.10".
_TEXT_FIELDS = ("name", "script", "working_dir", "args", "env", "pip", "fingerprint", "team", "labels", "array")


class JobFileError(ValueError):
    """A job that cannot be accepted; one line per problem."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


def load(path: str | Path) -> JobSpec:
    """Return the job in a file, with `working_dir` made absolute (it is relative to the file).

    Raises JobFileError for a file, field, folder or script that cannot be used.
    """
    path = Path(path).expanduser()
    if is_script(path) and path.exists():
        told = f"is a Python script, and no job file; `coadapt submit {path} --write` writes one that names it"
        raise JobFileError(one_line(str(path)), [told])
    try:
        found = path.exists()
        if path.is_file():
            with path.open("rb") as file:
                data = file.read(safe_yaml.MAX_BYTES + 1)
        else:
            raise FileNotFoundError(0, "it is not a file" if found else "there is no such file")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise JobFileError(
            one_line(str(path)), [f"cannot be read: {getattr(error, 'strerror', None) or error}"]
        ) from None
    return locate(parse(data, str(path)), path.parent, str(path))


def is_script(path: Path) -> bool:
    """Return whether a user gave the script in place of its job file."""
    return path.suffix.lower() in (".py", ".pyw")


def parse(data: bytes | str, source: str = "job.yaml") -> JobSpec:
    """Return the job in YAML text; looks at no folder. Raises JobFileError."""
    try:
        values = safe_yaml.read(data.encode() if isinstance(data, str) else data, _TEXT_FIELDS)
    except safe_yaml.YamlProblem as error:
        raise JobFileError(source, [str(error)]) from None
    if not isinstance(values, dict):
        raise JobFileError(source, [f"a job file is a mapping of fields, not {_kind(values)}"])
    return from_mapping(values, source)


def from_mapping(values: Mapping[str, Any], source: str = "job") -> JobSpec:
    """Return the job with these fields. Raises JobFileError."""
    try:
        spec = JobSpec.model_validate(dict(values))
    except ValidationError as error:
        told = _sentences(error, values)
        if not {"script", "command"} & set(values) and not any(one.startswith("script:") for one in told):
            told.append(f"script: missing; {NO_PROGRAM}")
        raise JobFileError(source, told) from None
    problems = refusals(spec) or _unknown_pace(spec)
    if problems:
        raise JobFileError(source, problems)
    return spec


def locate(spec: JobSpec, base: str | Path, source: str = "job") -> JobSpec:
    """Return `spec` with an absolute `working_dir`, after checking that folder and script are there.

    Raises JobFileError; symbolic links that leave the folder count as outside.
    """
    try:
        folder = (Path(base) / Path(spec.working_dir).expanduser()).resolve()
        found = _script_problem(spec, folder)
    except (OSError, RuntimeError, ValueError) as error:
        found = f"working_dir: {spec.working_dir} cannot be used: {getattr(error, 'strerror', None) or error}"
    if found:
        raise JobFileError(source, [found])
    return spec.model_copy(update={"working_dir": str(folder)})


def located(job: JobSpec | str | Path) -> JobSpec:
    """Return a spec, or the job in a file, with its folder found, as `locate` and `load` do."""
    return locate(job, Path.cwd()) if isinstance(job, JobSpec) else load(job)


def misfits(spec: JobSpec, cluster: Cluster) -> list[str]:
    """Return why `spec` can never run on the nodes of `cluster`, a sentence each; empty where it can.

    A cluster without GPU nodes says nothing: its nodes may still come.
    """
    if not cluster.capacity():
        return []
    if problem := _pool_problem(spec, cluster):
        return [problem]
    this, the = "this cluster", "the cluster"
    if any(cluster.pools):
        this = the = f"pool {spec.pool}" if spec.pool else "the cluster outside its pools"
    cluster = cluster.of_pool(spec.pool or "")
    capacity = cluster.capacity()
    problems = [
        f"{field}: {name} is not a GPU type of {this}{_instead(name, capacity)}"
        for field, name in _named_types(spec)
        if name not in capacity
    ]
    if problems:
        return problems
    usable = {t: n for t, n in capacity.items() if spec.gpus_per_replica(t) is not None}
    if not usable:
        return [f"resources.gpus_per_replica: names no GPU type of {this}, which has {', '.join(capacity)}"]
    if spec.sizes is not None and not any(n <= most for t, most in usable.items() for n in spec.sizes_on(t) or ()):
        return [f"sizes: {_sizes(spec, usable)} is more than {the} has of any one type ({_counts(usable)})"]
    fewest = spec.resources.gpus or spec.resources.min_gpus
    field = "gpus" if spec.resources.gpus else "min_gpus"
    if not any(n >= fewest for n in usable.values()):
        return [f"resources.{field}: {fewest} is more than {the} has of any one type ({_counts(usable)})"]
    widest_node = {t: max(node.gpus for node in cluster.of_type(t)) for t in usable}
    if not any((spec.gpus_per_replica(t) or 0) <= widest_node[t] for t in usable):
        return [
            f"resources.gpus_per_replica: {spec.resources.gpus_per_replica} fits no node; "
            f"GPUs of the largest nodes: {_counts(widest_node)}"
        ]
    wanted = spec.reservation
    if wanted is not None and wanted.gpus > capacity[wanted.gpu_type]:
        return [f"reservation.gpus: {wanted.gpus} is more than the {capacity[wanted.gpu_type]} {wanted.gpu_type}"]
    return _amount_misfits(spec, cluster) or _input_misfits(spec, cluster) or _batch_misfits(spec, usable)


def schema() -> dict[str, Any]:
    """Return the JSON schema of a job file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **JobSpec.model_json_schema(),
        "title": "Coadapt job file",
        "description": "One training run: what `coadapt submit` takes.",
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"


# --- folders and clusters --------------------------------------------------------------------------------


def _script_problem(spec: JobSpec, folder: Path) -> str | None:
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        return f"working_dir: {folder} {what}; it is relative to the job file"
    if spec.command:
        return None
    script = folder / spec.script
    if script.is_symlink() and not os.path.exists(script):
        return f"script: {spec.script} is a symbolic link that leads nowhere"
    resolved = script.resolve()
    if not resolved.is_relative_to(folder):
        return f"script: {spec.script} is outside working_dir {folder}; only that folder is sent to the nodes"
    if not resolved.exists():
        near = difflib.get_close_matches(spec.script, [p.name for p in folder.glob("*.py")], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"script: {spec.script} does not exist in working_dir {folder}{hint}"
    if not resolved.is_file():
        return f"script: {spec.script} is not a file"
    if resolved.suffix != ".py":
        return f"script: {spec.script} is not a Python file (.py)"
    return _syntax_problem(spec.script, resolved)


def _syntax_problem(name: str, path: Path) -> str | None:
    try:
        ast.parse(path.read_bytes(), filename=name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        reason = str(getattr(error, "msg", error))
        return f"script: {name} is not valid Python{f', line {line}' if line else ''}: {reason}"
    return None


def _sizes(spec: JobSpec, usable: Iterable[str]) -> str:
    """Return the smallest size that a job names, by GPU type where they differ."""
    least = {t: min(spec.sizes_on(t) or [0]) for t in usable}
    return str(min(least.values())) if len(set(least.values())) == 1 else _counts(least)


def _pool_problem(spec: JobSpec, cluster: Cluster) -> str | None:
    """Return why the job's pool has no GPUs of this cluster."""
    pools = sorted(name for name, part in cluster.pools.items() if part.capacity())
    if (spec.pool or "") in pools:
        return None
    named = [name for name in pools if name]
    if spec.pool is None:
        return f"pool: every node of this cluster belongs to a pool; name one of {', '.join(named)}"
    if not named:
        return f"pool: {spec.pool} is not a pool of this cluster, which has none; leave it out"
    return f"pool: {spec.pool} is not a pool of this cluster{_instead(spec.pool, named)}"


def _named_types(spec: JobSpec) -> list[tuple[str, str]]:
    """Return every GPU type a job names where naming an unknown one means it waits for ever."""
    field = "sizes" if isinstance(spec.sizes, dict) else "resources.gpu_types"
    named = [(field, t) for t in spec.resources.gpu_types or ()]
    if spec.reservation is not None:
        named.append(("reservation.gpu_type", spec.reservation.gpu_type))
    return named


def _amount_misfits(spec: JobSpec, cluster: Cluster) -> list[str]:
    """Say which CPUs or memory of a replica no node has beside its GPUs, of what the file names."""
    resources = spec.resources
    replicas = {t: per for t in cluster.gpu_types if (per := spec.gpus_per_replica(t)) is not None}
    nodes = [node for t, gpus in replicas.items() for node in cluster.of_type(t) if node.gpus >= gpus]
    cpus, memory_gib = resources.cpus_per_gpu or 0.0, resources.memory_gib_per_gpu or 0.0
    for field, asked, of in (("cpus_per_gpu", cpus, "cpus"), ("memory_gib_per_gpu", memory_gib, "memory_gib")):
        has = {node.id: (getattr(node, of) or math.inf) / replicas[node.gpu_type] for node in nodes}
        fitting = [node for node in nodes if asked <= has[node.id] + 1e-6]
        if not fitting:
            most: dict[str, float] = {}
            for node in nodes:
                most[node.gpu_type] = max(most.get(node.gpu_type, 0.0), has[node.id])
            return [
                f"resources.{field}: {asked:g} is more than any node has for each GPU of a replica; "
                f"most that are accepted: {_counts(most)}"
            ]
        nodes = fitting
    return []


def _input_misfits(spec: JobSpec, cluster: Cluster) -> list[str]:
    """Say that no emulated node has CPUs and memory of its own, where the job's input is emulated."""
    emulated = [node for t in cluster.gpu_types for node in cluster.of_type(t) if node.emulated]
    if spec.emulation.input is None or not emulated:
        return []
    if any(node.cpus >= node.gpus and node.memory_gib > 0 for node in emulated):
        return []
    return [
        "emulation.input: no emulated node has a CPU and memory for each of its GPUs; "
        "start nodes with both, as by --emulate '2x t4:4/16/128'"
    ]


def _batch_misfits(spec: JobSpec, usable: Mapping[str, int]) -> list[str]:
    """Return a batch that must be held without accumulation and is larger than all GPUs of every type together."""
    training, resources = spec.training, spec.resources
    first, limit = training.initial_batch_size, training.max_local_batch_size
    if first is None or limit is None or training.gradient_accumulation:
        return []
    held = {}
    for gpu_type, count in usable.items():
        gpus = min(count, resources.gpus or resources.max_gpus)
        local = limit.get(gpu_type) if isinstance(limit, dict) else limit
        if local is None:
            return []
        held[gpu_type] = gpus // (spec.gpus_per_replica(gpu_type) or 1) * local
    if any(samples >= first for samples in held.values()):
        return []
    return [
        f"training.initial_batch_size: {first} fits no GPU type without gradient_accumulation; "
        f"most samples in one pass: {_counts(held)}"
    ]


def _counts(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {round(count, 3):g}" for name, count in sorted(values.items())) or "none"


@cache
def pace_profiles() -> tuple[str, ...]:
    """Return models whose measured speed emulated nodes can take."""
    values = json.loads(PACE_PROFILES.read_text())
    return tuple(sorted(values.get("models", values)))


def _unknown_pace(spec: JobSpec) -> list[str]:
    name = spec.emulation.profile
    if not PACE_PROFILES.exists() or name in pace_profiles():
        return []
    return [f"emulation.profile: {name} is not a measured model{_instead(name, pace_profiles())}"]


# --- pydantic's errors as sentences ----------------------------------------------------------------------

_OUR_FIELD = re.compile(r"^[a-z_]+(\.[A-Za-z_]\w*)*: ")


def _sentences(error: ValidationError, values: Any) -> list[str]:
    """Return one sentence per field, in the order of pydantic's errors (a union reports each of its members)."""
    by_path: dict[tuple[str | int, ...], list[Any]] = {}
    for item in error.errors(include_url=False):
        by_path.setdefault(_path(item, values), []).append(item)
    # A union also says that its other member was not meant: the deeper error is the one to show.
    inner = {path[:i] for path in by_path for i in range(len(path))}
    kept = {path: items for path, items in by_path.items() if path not in inner} or by_path
    return [_sentence(path, items) for path, items in kept.items()]


def _path(item: Mapping[str, Any], values: Any) -> tuple[str | int, ...]:
    """Return `loc` without the tags pydantic adds for the members of a union."""
    path: list[str | int] = []
    for i, part in enumerate(item["loc"]):
        last_and_missing = item["type"] == "missing" and i == len(item["loc"]) - 1
        if isinstance(values, list) and isinstance(part, int):
            values = dict(enumerate(values))
        if isinstance(values, dict) and part in values:
            values = values[part]
        elif not last_and_missing:
            continue
        path.append(part)
    return tuple(path)


def _sentence(path: tuple[str | int, ...], items: Sequence[Mapping[str, Any]]) -> str:
    name = "".join(f"[{p}]" if isinstance(p, int) else f".{one_line(p)}" for p in path).removeprefix(".")
    first = items[0]
    if first["type"] == "value_error":
        message = str(first["ctx"]["error"])
        joiner = "." if _OUR_FIELD.match(message) else ": "
        return f"{name}{joiner}{message}" if name else message
    if first["type"] == "extra_forbidden":
        fields = _model_at(path[:-1]).model_fields
        return f"{name}: unknown field{_instead(str(path[-1]), fields)}"
    if first["type"] == "missing":
        return f"{name}: missing; {_describe(path)}"
    wanted = " or ".join(dict.fromkeys(accepted(item) for item in items))
    value = first["input"]
    near = difflib.get_close_matches(value, choices(items), 1) if isinstance(value, str) else []
    return f"{name}: {shown(value)} is not {wanted}" + (f"; did you mean {near[0]}?" if near else "")


def _model_at(path: Iterable[str | int]) -> type[BaseModel]:
    model: type[BaseModel] = JobSpec
    for part in path:
        model = next(m for m in _models(model.model_fields[str(part)].annotation))
    return model


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the model classes in a field's type, `X` or `X | None`."""
    members = getattr(annotation, "__args__", None) or (annotation,)
    members = [get_args(one)[0] if get_origin(one) is Annotated else one for one in members]
    return [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]


def _describe(path: tuple[str | int, ...]) -> str:
    text = _model_at(path[:-1]).model_fields[str(path[-1])].description or "a value is needed"
    sentence = text.split("\n")[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"the text {shown(value)}" if value is not None else "nothing"


def _instead(name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.6) or difflib.get_close_matches(name.lower(), known, 1, 0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known: {', '.join(known)}"
