"""Resource-allocation problems beside GPUs: shard load balancing and traffic engineering (COpter, chapter 5)."""
