"""The page: HTML of the answers that the API gives. No build step, and nothing from another host."""
