"""How long jobs take that were just submitted, by what like jobs took."""
