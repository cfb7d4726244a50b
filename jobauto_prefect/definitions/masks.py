"""What is shown in place of a secret."""

MASK = "********"
