"""Services learn from what has been and advise rounds. They act on nothing."""
