"""Starting training processes and following them; the template that forks them."""
