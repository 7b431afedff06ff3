"""A cache of a job's samples on one node, which `coadapt.cached` fills."""
