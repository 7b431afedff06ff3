"""Programs on a node, beside their worker: their processes, their environment, and what they say. No Ray."""
