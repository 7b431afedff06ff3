"""Control plane: rounds, policies, placement, and the Ray actor that runs them."""
