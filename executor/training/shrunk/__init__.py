"""Models that are S times narrower, and whose best hyper-parameters are those of the wide ones."""
