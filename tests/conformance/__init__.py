"""What the specification says, and which tests prove it."""
