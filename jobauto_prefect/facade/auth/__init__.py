"""Who sends a request, how they are authenticated, and what they may do."""
