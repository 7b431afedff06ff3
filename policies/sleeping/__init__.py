"""Which nodes may sleep, and which must wake: pure functions of what ran, what waits and what is foreseen."""
