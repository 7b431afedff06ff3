"""Who may do what: users, tokens, secrets and the audit log."""
