"""What a browser sends with a form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends

from jobauto_prefect.facade.http.requests import RawBody


class Form(Mapping[str, str]):
    """The fields of a form; of several of one name the last one counts, `all` has each."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._last = dict(pairs)

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def all(self, name: str) -> list[str]:
        """Return the values of all fields of this name, in their order."""
        return [value for field, value in self._pairs if field == name]


def read_form(raw: RawBody) -> Form:
    """Read the fields of a form that was sent as browsers send them by default."""
    text = raw.decode("utf-8", "replace")
    return Form(parse_qsl(text, keep_blank_values=True))


SentForm = Annotated[Form, Depends(read_form)]
