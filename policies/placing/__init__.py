"""Placing: which GPUs of which nodes realise what a policy has chosen."""
