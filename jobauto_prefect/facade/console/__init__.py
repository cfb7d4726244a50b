"""The console: pages for operators, with a sign-in of their own, over the REST contract's data."""
