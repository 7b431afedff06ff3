"""Two jobs on one GPU: who may be beside whom, where there is room, and which jobs are measured first."""
