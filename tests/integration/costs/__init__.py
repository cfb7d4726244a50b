"""What operations cost in statements, commits and calls."""
