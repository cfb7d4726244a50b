"""What records look like in responses: a model for each, with the meaning of its fields."""
