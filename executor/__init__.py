"""The Ray side of one job: its executor, its workers, and the plan of every resize."""
