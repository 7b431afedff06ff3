"""A job's real training processes without Ray: `coadapt check`."""
