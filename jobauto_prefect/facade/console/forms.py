"""What a browser sends with a form."""

import base64
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request

from jobauto_prefect.facade.http.requests import RawBody, away_from_loop

MAX_FIELDS = 10_000

SENT_FORM = "sent_form"
"""In a request's state: the form that was sent to this page after its session had ended."""


class Form(Mapping[str, str]):
    """The fields of a form; of several of one name the last one counts, `all` has each."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._last = dict(pairs)

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def all(self, name: str) -> list[str]:
        """Return the values of all fields of this name, in their order."""
        return [value for field, value in self.pairs if field == name]


async def read_form(raw: RawBody, request: Request) -> Form:
    """Read the fields of a form; a file that was chosen is an address with its data."""
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        return Form(await _read_parts(raw, request))
    return await away_from_loop(len(raw), lambda: parse_form(raw.decode("utf-8", "replace")))


def parse_form(text: str) -> Form:
    """Return the fields of a text as forms without files are sent.

    Raises:
        HTTPException: it has too many.
    """
    try:
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        message = f"the form has more than {MAX_FIELDS} fields; send it in several parts"
        raise HTTPException(400, message) from None


async def _read_parts(raw: bytes, request: Request) -> list[tuple[str, str]]:
    # Few forms have files.
    from starlette.formparsers import MultiPartException, MultiPartParser

    async def stream() -> AsyncGenerator[bytes, None]:
        yield raw

    try:
        parser = MultiPartParser(request.headers, stream(), max_part_size=len(raw))
        parts = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from None
    pairs = []
    for name, part in parts.multi_items():
        if isinstance(part, str):
            pairs.append((name, part))
        elif content := await part.read():
            data = base64.b64encode(content).decode()
            pairs.append((name, f"data:{part.content_type};base64,{data}"))
    await parts.close()
    return pairs


SentForm = Annotated[Form, Depends(read_form)]
