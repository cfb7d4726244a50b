"""The console's pages of tasks: the windows that were owed, one by one and as a calendar."""
