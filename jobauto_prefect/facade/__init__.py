"""The REST contract, and the claims API of the workers."""
