"""How fast a job's input is with given CPUs and memory, and what a job gains by more of them."""
