"""The ways a script can run: by itself, under torchrun, as a job, measured."""
