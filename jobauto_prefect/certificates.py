"""Which connections need certificates to judge by."""


def needs_certificates(url: str) -> bool:
    """Whether a client of this address has to load the certificates that are trusted.

    httpx loads them for each client, also where nothing is encrypted; that takes longer than a
    request.
    """
    return url.startswith("https:")
