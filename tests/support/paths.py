"""Where this repository's folders are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository's top."""
