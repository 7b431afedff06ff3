"""The HTTP API: an app of its own beside the scheduler's actor. It decides nothing about jobs."""
