"""What all requests and responses of the contract have in common."""
