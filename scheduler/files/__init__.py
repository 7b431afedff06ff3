"""Files of jobs on disk: packages, checkpoints, outputs and logs."""
