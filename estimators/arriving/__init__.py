"""Whether new jobs of a team arrive within a window, and how long a job takes, by what came before."""
