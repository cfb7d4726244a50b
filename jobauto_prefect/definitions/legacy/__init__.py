"""Conversion of documents of older versions to this version."""
