"""`python -m coadapt.integrations.accelerate_launch [options] train.py [args]`: `accelerate launch`, as a job.

It takes the options and the configuration file of `accelerate launch`, submits the script and prints the job's id.
"""
# ruff: noqa: E402  # what is missing is told before it is imported

from __future__ import annotations

from . import versions

versions.require("accelerate")

import sys
from collections.abc import Sequence
from pathlib import Path

from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_simple_launcher_cmd_env

from ..client.client import connect
from ..core.job import JobSpec

_REFUSED = ("use_deepspeed", "use_fsdp", "use_megatron_lm", "tpu", "module", "no_python", "use_parallelism_config")


def job_of(arguments: Sequence[str]) -> JobSpec:
    """Return the job that `accelerate launch` would run with these arguments.

    It gets as many GPUs as processes were asked for, at most. Raises ValueError for what a job cannot follow.
    """
    asked, *_ = _validate_launch_command(launch_command_parser().parse_args(list(arguments)))
    for name in _REFUSED:
        if getattr(asked, name, False):
            raise ValueError(
                f"accelerate launch: {name} is set, and an elastic job divides batches between whole copies of "
                "the model; leave it out, or submit the script as a command with sizes"
            )
    processes, asked.num_processes, asked.num_machines = asked.num_processes, 1, 1
    _, environment = prepare_simple_launcher_cmd_env(asked)
    script = Path(asked.training_script)
    return JobSpec.model_validate(
        {
            "name": script.stem.replace("_", "-"),
            "script": script.name,
            "working_dir": str(script.absolute().parent),
            "args": list(asked.training_script_args),
            "env": {name: value for name, value in environment.items() if name.startswith("ACCELERATE_")},
            "resources": {"max_gpus": processes} if processes and processes > 1 else {},
        }
    )


def main(arguments: Sequence[str]) -> int:
    try:
        print(connect().submit(job_of(arguments)))
    except (ValueError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
