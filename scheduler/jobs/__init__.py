"""What is known of one job: its record, its phases, and how long it held GPUs. Pure."""
