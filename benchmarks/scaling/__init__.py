"""Parts of `benchmarks.scaling_up`."""
