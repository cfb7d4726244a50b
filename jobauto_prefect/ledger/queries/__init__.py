"""Named queries, by subject."""
