"""Models learned from measurements: throughput, statistical efficiency, goodput."""
