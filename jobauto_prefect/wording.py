"""Words that agree with numbers."""


def pluralize(number: float, noun: str, plural: str | None = None, *, zero: str = "0") -> str:
    """Return `1 error`, `2 errors`; `2 companies` where the plural is said; `zero` instead of 0."""
    shown = f"{number:g}" if isinstance(number, float) else f"{number}"
    return f"{shown if number else zero} {noun if number == 1 else plural or f'{noun}s'}"
