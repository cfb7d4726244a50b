"""The records there are, as files would say them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobauto_prefect.cli.actions import MODES, as_file
from jobauto_prefect.cli.kinds import KINDS, Key, Record, key_of, means, title_of

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client


class Known:
    """Everything the facade lists, by kind and id, with the members that files have."""

    def __init__(self, listed: Mapping[str, Mapping[int, Record]]) -> None:
        """`listed`: kind -> id -> record as the facade shows it; with all that these refer to."""
        self._ids: dict[str, dict[Key, int]] = {}
        self._titles: dict[str, dict[int, str]] = {}
        self.records: dict[str, dict[int, Record]] = {}
        for kind in KINDS:
            given = listed.get(kind, {})
            records = {number: self._as_file(kind, one) for number, one in given.items()}
            self.records[kind] = records
            self._ids[kind] = {
                key_of(kind, records[number]): number for number in sorted(records, reverse=True)
            }
            self._titles[kind] = {number: title_of(kind, one) for number, one in records.items()}
        templates = self.records["runtemplate"].items()
        self.records["runtemplate"] = {
            number: {**one, **{mode: as_file(one.get(mode, {}), self._titles) for mode in MODES}}
            for number, one in templates
        }

    @classmethod
    async def of(cls, client: "Client", *kinds: str) -> "Known":
        """Ask the facade for the records of these kinds and what they refer to; none said: all."""
        wanted = with_references(kinds or KINDS)
        return cls(
            {
                kind: await client.list(one.collection)
                for kind, one in KINDS.items()
                if kind in wanted
            }
        )

    def _as_file(self, kind: str, record: Record) -> Record:
        """References by natural key beside the members there are; kinds before it are known."""
        names: dict[str, Any] = {
            name: self._titles[one.kind].get(record[one.member])
            for name, one in KINDS[kind].references.items()
        }
        for name, other in KINDS[kind].lists.items():
            titles = self._titles[other]
            names[name] = [titles.get(one, "/").partition("/")[2] for one in record[name]]
            names[f"{name}_ids"] = record[name]
        if kind == "credential_type":
            names |= record["translations"]
        if kind == "runtemplate":  # which texts mean its application, only the application tells
            names["application"] = self.records["app"].get(record["app_id"], {"name": ""})
        return {**record, **names}

    def id_of(self, kind: str, content: Record) -> int | None:
        """The id of the record that a file's content is about; None: there is none yet."""
        if kind != "app":
            return self._ids[kind].get(key_of(kind, content))
        found = self._ids[kind].get(key_of(kind, content))
        return found if found is not None or "uuid" in content else self._app_named(content)

    def _app_named(self, content: Record) -> int | None:
        """A definition without a UUID is a version of the application of its name."""
        title = title_of("app", content)
        numbers = (one for one, known in sorted(self._titles["app"].items()) if known == title)
        return next(numbers, None)

    def titled(self, kind: str, title: str) -> int | None:
        """The id of the record that a reference means."""
        titles = self._titles[kind].items()
        return min((number for number, one in titles if one == title), default=None)

    def titles(self, kind: str) -> Iterable[str]:
        """How people call the records of a kind."""
        return self._titles[kind].values()

    def title(self, kind: str, number: int) -> str:
        """How people call a record."""
        return self._titles[kind][number]

    def referred(self, kind: str, content: Record) -> Iterator[tuple[str, int]]:
        """The kinds and ids of the known records that a file's content refers to."""
        for name, one in KINDS[kind].references.items():
            if one.kind == "app":
                yield from (
                    ("app", number)
                    for number, app in self.records["app"].items()
                    if means(content, app)
                )
            elif content.get(name) is not None:
                number = self.titled(one.kind, content[name])
                if number is not None:
                    yield one.kind, number
        for member, other in KINDS[kind].lists.items():
            numbers = (self.titled(other, title) for title in KINDS[kind].titles(member, content))
            yield from ((other, number) for number in numbers if number is not None)

    def dependents(self, kind: str, number: int) -> Sequence[tuple[str, int]]:
        """The kinds and ids of the records that refer to one."""
        return [
            (other, one_id)
            for other, described in KINDS.items()
            for one_id, one in self.records[other].items()
            if any(
                one[reference.member] == number
                for reference in described.references.values()
                if reference.kind == kind
            )
            or any(
                number in one[f"{member}_ids"]
                for member, named in described.lists.items()
                if named == kind
            )
        ]


def with_references(kinds: Iterable[str]) -> set[str]:
    """These kinds and those they refer to."""
    found: set[str] = set()
    waiting = [*kinds]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += [one.kind for one in KINDS[kind].references.values()]
            waiting += KINDS[kind].lists.values()
    return found
