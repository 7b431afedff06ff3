"""Linear and integer programs."""
