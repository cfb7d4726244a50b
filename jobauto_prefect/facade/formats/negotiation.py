"""The formats of responses, and negotiation of a request's format and languages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jobauto_prefect.errors import NotAcceptable


@dataclass(frozen=True, slots=True)
class Format:
    """One format; `aliases` are other media types by which clients request it.

    `charset`: whether the media type has that parameter. JSON and YAML are always UTF-8 and define
    none (RFC 8259, RFC 9512).
    """

    name: str
    media_type: str
    for_lists_only: bool = False
    charset: bool = True
    aliases: tuple[str, ...] = ()

    @property
    def content_type(self) -> str:
        """The value of the Content-Type header."""
        return f"{self.media_type}; charset=utf-8" if self.charset else self.media_type


FORMATS: Mapping[str, Format] = {
    body_format.name: body_format
    for body_format in (
        Format("json", "application/json", charset=False),
        Format(
            "yaml",
            "application/yaml",
            charset=False,
            aliases=("text/yaml", "text/x-yaml", "application/x-yaml"),
        ),
        Format("xml", "application/xml", aliases=("text/xml",)),
        Format("html", "text/html", aliases=("application/xhtml+xml",)),
        Format("csv", "text/csv", for_lists_only=True),
    )
}
"""By name; the default for clients without a preference comes first."""

DEFAULT = "json"


def negotiate(suffix: str | None, accept: str | None, *, is_list: bool) -> str:
    """Return the response format: the suffix's, else the one the Accept header prefers.

    Without either it is JSON.

    Raises:
        NotAcceptable: none of them is supported.
    """
    spoken = [
        name for name, candidate in FORMATS.items() if is_list or not candidate.for_lists_only
    ]
    if suffix is not None:
        if suffix in spoken:
            return suffix
        raise NotAcceptable(f"the format {suffix[:40]!r} is not supported here", spoken)
    ranges = dict(_parse_ranges(accept or ""))
    if not ranges:
        return DEFAULT
    quality = {name: _quality_of(FORMATS[name], ranges) for name in spoken}
    best = max(spoken, key=quality.__getitem__)
    if quality[best] > 0:
        return best
    raise NotAcceptable("none of the media types of the Accept header is supported here", spoken)


def negotiate_error(suffix: str | None, accept: str | None) -> str:
    """Return the format of an error: like `negotiate` for a record, but JSON if nothing fits."""
    for asked in ((suffix, None), (None, accept)):
        try:
            if asked != (None, None):
                return negotiate(*asked, is_list=False)
        except NotAcceptable:
            continue
    return DEFAULT


def _parse_ranges(accept: str) -> Iterator[tuple[str, float]]:
    """Yield media ranges with their quality; skip malformed ones (RFC 9110, 12.5.1)."""
    for part in accept.split(","):
        media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weights = [piece[2:].strip() for piece in parameters if piece.startswith("q=")]
        quality = _parse_quality(weights[0]) if weights else 1.0
        if media_range.count("/") == 1 and quality is not None:
            yield media_range, quality


def _parse_quality(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def _quality_of(body_format: Format, ranges: Mapping[str, float]) -> float:
    """Return the quality that the most specific matching range gives a format."""
    exact = [
        ranges[name] for name in (body_format.media_type, *body_format.aliases) if name in ranges
    ]
    if exact:
        return max(exact)
    family = body_format.media_type.partition("/")[0]
    return ranges.get(f"{family}/*", ranges.get("*/*", 0.0))


def parse_accept_language(accept_language: str | None) -> tuple[str, ...]:
    """Return the languages of an Accept-Language header, best first (RFC 9110, 12.5.4)."""
    weighted = []
    for part in (accept_language or "").split(","):
        language, *parameters = (piece.strip() for piece in part.split(";"))
        weight = _parse_weight(parameters)
        if language and language != "*" and weight > 0:
            weighted.append((weight, language))
    return tuple(language for _, language in sorted(weighted, key=lambda pair: -pair[0]))


def _parse_weight(parameters: list[str]) -> float:
    """Return the weight among the parameters: 1 if there is none, 0 if it is invalid."""
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0
    return 1
