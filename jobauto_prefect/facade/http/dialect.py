"""Dialects of the contract: input and output are translated here.

The rest of the service knows our own words only, which are the defaults below.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobauto_prefect.facade.formats import View
from jobauto_prefect.ledger.queries.lists import Condition

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TranslatedInput:
    """The fields of a request under this service's names.

    `ignored` are the names of fields that the dialect ignores; `defaults` are a new record's values
    for omitted fields.
    """

    fields: Fields
    ignored: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The functions that translate; an `item` is a record kind as paths name it.

    `translate_input` gets an item, the fields of a request, and this service's names. `member`
    returns this service's name of a field. `only` selects the records of an item in this dialect;
    None: all. `show` translates a record. `arrays` returns whether the list of a route's name is an
    array. `view` gets a route's name, its view, and the requested fields; pages are not translated.
    `counts_work`: run templates have counts of their jobs. `error` gets an error (None: a plain
    HTTP error) and its body.
    """

    translate_input: Callable[[str, Fields, Collection[str]], TranslatedInput] = (
        lambda _item, fields, _known: TranslatedInput(fields)
    )
    member: Callable[[str, str], str] = lambda _item, name: name
    only: Callable[[str], Condition | None] = lambda _item: None
    show: Callable[[str, Fields], Fields] = lambda _item, shown: shown
    arrays: Callable[[str], bool] = lambda _route: False
    counts_work: bool = False
    view: Callable[[str, View, Mapping[str, Any]], View] = lambda _route, view, _asked: view
    error: Callable[[Exception | None, Fields], Fields] = lambda _error, body: body


OWN = Dialect()
