"""The line around a job's processes: their environment, their user, their folders. No Ray."""
