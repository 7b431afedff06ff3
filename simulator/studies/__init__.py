"""Studies in virtual time: trials that react to results, on a pool of GPUs or in the market of a cluster."""
