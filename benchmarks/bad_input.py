"""Malformed job files, traces, cluster descriptions, requests and scripts, each answered with its one line.

Job files, traces, cluster descriptions, requests to the service, and what is wrong with models, foresight and
power need no cluster (and are in the fast tests). The scripts are submitted together to one small emulated
cluster, beside a sound job that must not notice any of them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

import yaml
from coadapt.client import jobfile
from coadapt.client.client import Client
from coadapt.client.script_check import mistaken
from coadapt.core import emulated_nodes
from coadapt.core.schemas import JobRow
from coadapt.core.settings import Settings
from coadapt.deploy import local_cluster
from coadapt.tuning.study_file import StudyFileError, from_values

from tests.support import bad_samples, bad_service_input
from tests.support.bad_foresight import BAD_FORESIGHT
from tests.support.bad_jobs import BAD_CLUSTERS, BAD_JOBS, one_line
from tests.support.bad_models import BAD_MODELS
from tests.support.bad_provisioning import BAD_PROVISIONING
from tests.support.bad_samples import BAD_SAMPLES
from tests.support.bad_service_input import BAD_SERVICE_INPUT
from tests.support.bad_study_files import BAD as BAD_STUDIES
from tests.support.bad_study_files import GOOD as GOOD_STUDY
from tests.support.bad_traces import BAD_TRACES, ENDLESS, refusal_in_little_memory

from .arguments import some_of
from .bad_scripts import BAD_SCRIPTS, BadScript
from .harness import finish, table

Row = tuple[str, str, str]  # what, expected, answered


def job_files() -> list[Row]:
    rows = []
    for case in BAD_JOBS:
        with tempfile.TemporaryDirectory() as folder:
            answer = one_line(case, Path(folder).resolve()).replace(str(Path(folder).resolve()), "{dir}")
            rows.append((f"job file: {case.what}", case.error, answer.removeprefix("{dir}/job.yaml: ")))
    return rows


def traces() -> list[Row]:
    rows = []
    for case in [*BAD_TRACES, *ENDLESS]:
        with tempfile.TemporaryDirectory() as folder:
            answer = refusal_in_little_memory(case, Path(folder))
            rows.append((f"trace: {case.what}", case.error, answer))
    return rows


def clusters() -> list[Row]:
    rows = []
    for text, error in BAD_CLUSTERS.items():
        try:
            emulated_nodes.parse(text)
            answer = ""
        except emulated_nodes.EmulationError as refused:
            answer = str(refused)
        rows.append((f"cluster: {text!r}", error, answer))
    return rows


def foresight() -> list[Row]:
    rows = []
    for case in BAD_FORESIGHT:
        with tempfile.TemporaryDirectory() as folder:
            answer = case.reached.answer(Path(folder)).replace(folder, "{dir}")
            rows.append((f"foresight: {case.what} ({case.reached.how})", case.error, answer))
    return rows


def studies() -> list[Row]:
    rows = []
    for changed, sentence in BAD_STUDIES:
        try:
            from_values({**GOOD_STUDY, **changed})
            told = ""
        except StudyFileError as error:
            told = str(error)
        # Only the beginning is promised where the rest lists what is known.
        rows.append((f"study: {changed}", sentence, sentence if told.startswith(sentence) else told))
    return rows


def models() -> list[Row]:
    rows = []
    for case in BAD_MODELS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append((f"models: {case.what}", case.error, case.answer(Path(folder))))
    return rows


def provisioning() -> list[Row]:
    rows = []
    for case in BAD_PROVISIONING:
        with tempfile.TemporaryDirectory() as folder:
            rows.append((f"CPUs and memory: {case.what}", case.error, case.answer(Path(folder))))
    return rows


def service() -> list[Row]:
    rows = []
    for what, way, sentence in BAD_SERVICE_INPUT:
        with tempfile.TemporaryDirectory() as folder:
            told = bad_service_input.answer(way, Path(folder))
        # Only the beginning is promised where the rest names processes, times or limits.
        rows.append((f"service: {what}", sentence, sentence if told.startswith(sentence) else told))
    return rows


def samples() -> list[Row]:
    rows = []
    for what, act, sentence in BAD_SAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append((f"samples: {what}", sentence, bad_samples.answer(act, Path(folder))))
    return rows


def write_job(folder: Path, index: int, case: BadScript) -> Path:
    """Write the script and its job file into `folder`."""
    (folder / f"script_{index}.py").write_text(case.script)
    job = {
        "name": f"bad-{index}",
        "script": f"script_{index}.py",
        "profile": False,
        "max_failures": case.max_failures,
        "resources": {"max_gpus": 1},
        "training": yaml.safe_load(f"{{{case.training}}}"),
        "emulation": {"time_scale": 20},
    }
    path = folder / f"job_{index}.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def scripts(timeout_s: float = 240.0) -> list[Row]:
    """Submit every bad script and a sound one; the sound one must end well, in its first try."""
    sound = BadScript("sound", "", {"train": SOUND_TRAIN})
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as state_dir:
        settings = Settings(state_dir=state_dir, round_interval_s=2.0, restart_cost_s=3.0)
        paths = [write_job(Path(folder), i, case) for i, case in enumerate([sound, *BAD_SCRIPTS])]
        with local_cluster.cluster("1x t4:4", settings=settings) as client:
            ids = [submitted(client, path) for path in paths]
            accepted = [row["id"] for row in client.list()]
            try:
                client.wait(accepted, timeout_s=timeout_s)
            except TimeoutError as error:
                print(error)
            found = {row["id"]: row for row in client.list()}
    rows = [
        (
            f"script: {case.what}",
            _expected(case).replace("{script}", f"script_{i}.py"),
            _answer(job, found.get(job)),
        )
        for i, (case, job) in enumerate(zip(BAD_SCRIPTS, ids[1:], strict=True), start=1)
    ]
    neighbour = found[ids[0]]
    tried = f"{neighbour['phase']} after {neighbour['failures']} failures, {neighbour['recoveries']} recoveries"
    return [*rows, ("a sound job beside them", "succeeded after 0 failures, 0 recoveries", tried)]


def submitted(client: Client, path: Path) -> str:
    """Return the job's id, or the sentence by which `coadapt submit` refuses it."""
    return mistaken(jobfile.load(path)) or client.submit(path)


def _expected(case: BadScript) -> str:
    return f"{case.ends}, {case.failures if case.ends == 'failed' else 0} errors: {case.reason}"


def _answer(refused: str, job: JobRow | None) -> str:
    """Return how the job ended, and why; node names change from run to run."""
    if job is None:
        return f"refused, 0 errors: {refused}"
    return f"{job['phase']}, {job['failures']} errors: " + re.sub(r"on node \w+", "on node N", job["reason"])


SOUND_TRAIN = """for epoch in coadapt.epochs(20):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    every = (job_files, traces, clusters, foresight, studies, models, provisioning, service, samples, scripts)
    kinds = {of.__name__: of for of in every}
    parser.add_argument("--only", type=some_of(list(kinds)), default=list(kinds), metavar="KIND[,KIND...]")
    rows: list[Row] = []
    for name in parser.parse_args().only:
        rows += kinds[name]()
        print(f"{name}: done, {len(rows)} cases so far", flush=True)
    wrong = [row for row in rows if not row[2] or row[1] != row[2]]
    table("Bad input and what its user reads", ("input", "answer"), [(what, answer) for what, _, answer in rows])
    for what, expected, answer in wrong:
        print(f"WRONG {what}: expected {expected!r}, got {answer!r}")
    finish("bad_input", {"cases": len(rows), "wrong": len(wrong)})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
