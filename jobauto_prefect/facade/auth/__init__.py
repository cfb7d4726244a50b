"""Who is asking, how that is proved, and what they may do."""
