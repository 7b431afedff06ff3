"""Starting and ending a cluster: emulated nodes on one machine, and the scheduler service."""
