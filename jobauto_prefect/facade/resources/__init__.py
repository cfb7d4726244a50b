"""The routes of the contract, by subject; `registry` names the resources, `crud` adds them."""
