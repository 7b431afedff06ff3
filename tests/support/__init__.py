"""What tests and benchmarks share: clusters, rounds, workers, instances."""
