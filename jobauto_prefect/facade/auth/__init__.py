"""Authentication of requests, and permissions of users."""
