"""Learning curves: when a metric of a job will reach its target."""
