"""What looks after the disk beside rounds: backups, and removing what is old."""
