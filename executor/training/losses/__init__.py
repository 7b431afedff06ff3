"""What a loss is a function of, and how gradients of a batch's parts add up to the batch's."""
