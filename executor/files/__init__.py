"""A job's files on a machine: its folder, its logs and its outputs."""
