"""Data plane: one adaptive executor per job, its workers, and the session API of a training script."""
