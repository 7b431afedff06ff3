"""Metrics of a job go on to experiment trackers, where its file asks for that."""
