"""How a job's record changes, by events, time, nodes and users. Pure."""
