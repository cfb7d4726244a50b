"""The content of an answer, whatever the format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jobauto_prefect.facade.formats.record_links import find_referenced_kind


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A query field that filters a list; `choices` are all its values, for the kind "choice"."""

    name: str
    label: str
    choices: Sequence[str] = ()
    kind: Literal["text", "choice", "time", "number"] = "text"


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to a related page; `href` begins with the base or with https://."""

    label: str
    href: str


def no_titles(_item: str) -> Mapping[str, str]:
    """Return no titles: fields keep their names."""
    return {}


@dataclass(frozen=True, slots=True)
class View:
    """One answer.

    `data` is what JSON shows: a record, or for a list an object of records keyed by id. `item` is
    the kind of the records (`job`), "" where they are of none (ping, status, index, errors).
    `base` is the prefix of all links; `path` the path of the request without its suffix.

    For a list: `query` is the request's, `next_query` the next page's (None: this is the last),
    `first_query` the first page's (None: this is the first), `total` counts the records of all
    pages (None: not counted). `columns` are those of HTML and CSV, in order; empty: for CSV all
    fields whose values are scalars, for HTML a choice that fits on a page. `orders` are the columns
    the list can be ordered by.

    `user` is who is signed in. `names` has names for ids in links, by kind and id:
    `{"app": {"3": "Invoice import"}}`. `languages` are those that pages prefer for texts in
    several, the best first. `as_array`: JSON and YAML show what is keyed by id as an array.
    `language` is that of a page's own words. `session`: the visitor signed in at the console, so
    that the page leads there and signs out. `titles_of` gives the titles of a kind's fields.
    """

    title: str
    item: str
    data: Any
    is_list: bool = False
    base: str = "/api/v1"
    path: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    total: int | None = None
    next_query: Mapping[str, str] | None = None
    first_query: Mapping[str, str] | None = None
    filters: Sequence[ListFilter] = ()
    orders: Sequence[str] = ()
    columns: Sequence[str] = ()
    user: str = ""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    related: Sequence[PageLink] = ()
    languages: Sequence[str] = ()
    as_array: bool = False
    language: str = "en"
    session: bool = False
    titles_of: Callable[[str], Mapping[str, str]] = no_titles

    def named(self, record: Mapping[str, Any], field: str, otherwise: str | None = None) -> str:
        """Return the name of the record that a field refers to, else its number: `#3`."""
        kind, number = find_referenced_kind(field), record[field]
        known = self.names.get(kind.item, {}) if kind else {}
        return known.get(str(number), f"#{number}" if otherwise is None else otherwise)
