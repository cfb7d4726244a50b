"""What records other than applications may say: policies, retries, notices, values."""
