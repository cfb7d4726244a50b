"""Which requests to Prefect are allowed, narrowed to what the caller may see."""
