"""What happens to a job whose program never calls `coadapt.prepare`: starts, stops, errors and speed. Pure."""
