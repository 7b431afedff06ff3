"""What the benchmark `dashboard` is made of: a cluster to look at, a browser, and what is looked at."""
