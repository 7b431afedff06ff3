"""Studies: which trials a search makes, which train together, which go on, and what the target trains with."""
