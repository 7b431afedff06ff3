"""Studies on a cluster: what is submitted, seen and kept, and the actor that does so."""
