"""When jobs start and end: the state of a round goes to a process beside the service, and its answers are kept."""
