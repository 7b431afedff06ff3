"""The program of a round with the terms of teams, and the same terms for policies of fixed sizes."""
