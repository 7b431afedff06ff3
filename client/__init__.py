"""What a user's program calls: verbs of a cluster, job files, and the packing of a working directory."""
