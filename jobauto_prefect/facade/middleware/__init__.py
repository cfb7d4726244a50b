"""What runs around the routes, for every request."""
