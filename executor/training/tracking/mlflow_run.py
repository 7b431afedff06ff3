"""A job's run in MLflow, which is found again by a tag wherever the job goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from .values import Values

TAG = "coadapt.job"
NAME = re.compile(r"[^\w./ :-]")  # what the name of a metric may not hold
MOST_AT_ONCE = 500  # metrics of one request
# Without these a server that is away is waited for, for minutes.
QUICKLY = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}


class MlflowRun:
    """The run of one job. `MLFLOW_RUN_ID` names it to a script that calls `mlflow.start_run` itself."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._client: Any = None
        self._run_id = ""

    def begin(self) -> None:
        """Find the run of the job, or make it."""
        for name, value in QUICKLY.items():
            os.environ.setdefault(name, value)
        import mlflow

        self._client = client = mlflow.MlflowClient()
        if (active := mlflow.active_run()) is not None:  # the script has begun one before its first report
            self._run_id = active.info.run_id
            return
        experiment = _experiment(client)
        found = client.search_runs([experiment], f"tags.`{TAG}` = '{self._job_id}'", max_results=1)
        if found:
            self._run_id = found[0].info.run_id
            client.update_run(self._run_id, status="RUNNING")
        else:
            made = client.create_run(experiment, run_name=self._job_id, tags={TAG: self._job_id})
            self._run_id = made.info.run_id
        os.environ["MLFLOW_RUN_ID"] = self._run_id

    def log(self, values: Sequence[Values]) -> None:
        """Add values, oldest first."""
        from mlflow.entities import Metric

        found = [
            Metric(NAME.sub("_", name), value, int(one.at_s * 1e3), one.step or 0)
            for one in values
            for name, value in one.metrics.items()
        ]
        for at in range(0, len(found), MOST_AT_ONCE):
            self._client.log_batch(self._run_id, metrics=found[at : at + MOST_AT_ONCE])

    def end(self, good: bool) -> None:
        """Say that this process adds nothing more; one that goes on elsewhere opens the run again."""
        self._client.set_terminated(self._run_id, "FINISHED" if good else "FAILED")


def _experiment(client: Any) -> str:
    """Return the experiment that the job's environment names, made where it is new."""
    if told := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return told
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default")
    found = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if found is None else found.experiment_id)
