"""Files of records: what they say, what is wrong with them, what applying them changes."""
