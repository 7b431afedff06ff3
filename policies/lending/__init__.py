"""Teams lend what is idle of their guarantees: who runs on his own GPUs, who borrows, and what is kept back."""
