"""How one job gets from the workers it has to the workers it should have: states, transitions and profile runs."""
