"""The kinds of records: what of each is shown, written and listed."""
