"""ASGI middleware around the routes."""
