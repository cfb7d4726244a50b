"""Files of records: parsing, validating, planning and applying them."""
