"""The process group of a job, and what is sent through it."""
