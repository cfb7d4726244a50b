"""Documents of older versions, turned into those of this version."""
