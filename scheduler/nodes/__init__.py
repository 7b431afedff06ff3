"""The nodes of the cluster: which there are, which take work, which are about to go, and their power."""
