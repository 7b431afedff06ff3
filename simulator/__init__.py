"""A trace-driven cluster in virtual time: the same rounds and policies as the live service, without Ray."""
