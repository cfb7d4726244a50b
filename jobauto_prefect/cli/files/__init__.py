"""Files of definitions and records: read, checked, upgraded, compared, imported."""
