"""The kinds of records: how each is shown, written and listed."""
