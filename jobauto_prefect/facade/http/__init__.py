"""What every request and answer of the contract has in common."""
