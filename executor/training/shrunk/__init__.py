"""A model S times narrower, whose best hyper-parameters are those of the wide one: maximal-update parametrisation."""
