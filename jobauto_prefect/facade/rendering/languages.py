"""The languages a browser asks for."""


def asked_languages(accept_language: str | None) -> tuple[str, ...]:
    """The languages of an Accept-Language header, the one wanted most first (RFC 9110, 12.5.4)."""
    weighted = []
    for part in (accept_language or "").split(","):
        language, *parameters = (piece.strip() for piece in part.split(";"))
        weight = _weight(parameters)
        if language and language != "*" and weight > 0:
            weighted.append((weight, language))
    return tuple(language for _, language in sorted(weighted, key=lambda pair: -pair[0]))


def _weight(parameters: list[str]) -> float:
    """1 where none is said, 0 for what is no weight."""
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0
    return 1
