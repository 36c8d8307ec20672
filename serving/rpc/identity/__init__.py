"""Who may call what: credentials, and the rule of each RPC."""
