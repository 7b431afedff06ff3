"""What a round is made of: its snapshot, and the way from a plan to commands."""
