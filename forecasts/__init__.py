"""What a forecast is asked and what it answers: plain values and their JSON. Pure."""
