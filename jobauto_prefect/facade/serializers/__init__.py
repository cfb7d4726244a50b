"""How records look to clients, by subject."""
