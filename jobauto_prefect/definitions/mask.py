"""The text shown in place of a secret."""

MASK = "********"
