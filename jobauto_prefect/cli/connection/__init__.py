"""How commands reach a facade, or this machine's own ledger."""
