"""What of a request to Prefect is allowed, and narrowed to what the caller may see."""
