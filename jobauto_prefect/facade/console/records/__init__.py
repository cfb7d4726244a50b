"""Pages of records: lists, details and forms, alike for all kinds."""
