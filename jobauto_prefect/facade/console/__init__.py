"""The console: pages for operators on top of the REST contract, with its own sign-in."""
