"""The routes of the contract, by subject; `crud` builds the router."""
