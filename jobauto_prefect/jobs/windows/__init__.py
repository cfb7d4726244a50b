"""Windows: those that are due, their tasks, and the time in which none opens."""
