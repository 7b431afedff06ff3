"""COpter: the continual engine for linear programs that change, its other problems, and its peers."""
