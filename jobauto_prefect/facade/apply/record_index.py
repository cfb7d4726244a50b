"""The existing records, in the form of files."""

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.facade.apply.record_kinds import (
    FILES,
    MODES,
    RULES,
    TEMPLATES,
    Key,
    Named,
    Record,
    Word,
    to_file_actions,
)
from jobauto_prefect.kinds import FILE_KINDS


class RecordIndex:
    """Everything the facade lists, by kind and id, with the fields that files have."""

    def __init__(
        self,
        listed: Mapping[str, Mapping[int, Record]],
        extra_env: Collection[str] = (),
        timezone: str = "UTC",
    ) -> None:
        """Index the records of `listed`: kind -> id -> record as the facade shows it.

        It must include everything they refer to. `extra_env` are further names that values of run
        templates may have, `timezone` is the time zone of companies that name none.
        """
        self.extra_env = extra_env
        self.timezone = timezone
        self._ids: dict[str, dict[Key, int]] = {}
        self._of_uuid: dict[str, dict[str, int]] = {}
        self._titles: dict[str, dict[int, str]] = {}
        self._of_word: dict[str, dict[Word, list[int]]] = {}
        self._of_bare_title: dict[str, dict[str, dict[str | None, int]]] = {}
        self.records: dict[str, dict[int, Record]] = {}
        for kind in FILE_KINDS:
            self._add(kind, listed.get(kind, {}))
        templates = self.records[TEMPLATES.item].items()
        self.records[TEMPLATES.item] = {
            number: {
                **template,
                **{mode: to_file_actions(template.get(mode, {}), self._titles) for mode in MODES},
            }
            for number, template in templates
        }

    def _add(self, kind: str, listed: Mapping[int, Record]) -> None:
        """Add the records of a kind, after those they refer to."""
        form = FILES[kind]
        as_file = {number: self._as_file(kind, record) for number, record in listed.items()}
        records = {number: record for number, record in as_file.items() if record is not None}
        self.records[kind] = records
        self._titles[kind] = {number: form.title(record) for number, record in records.items()}
        self._ids[kind] = {}
        self._of_uuid[kind] = {}
        self._of_word[kind] = defaultdict(list)
        self._of_bare_title[kind] = defaultdict(dict)
        for number, record in sorted(
            records.items()
        ):  # of several, the one with the lowest id counts
            self._ids[kind].setdefault(form.key(record), number)
            if uuid := str(record.get("uuid") or "").lower():
                self._of_uuid[kind].setdefault(uuid, number)
            for word in form.by_words(record):
                self._of_word[kind][word].append(number)
            owners = self._of_bare_title[kind][form.bare_title(record)]
            owners.setdefault(form.owner(record), number)

    def _as_file(self, kind: str, record: Record) -> Record | None:
        """Return a record with its references by natural key added to its fields.

        None: it is another company's.
        """
        names: dict[str, Any] = {
            name: self._called(reference.kind, record[reference.field])
            for name, reference in FILE_KINDS[kind].named_in_files.items()
        }
        for name, other in FILE_KINDS[kind].lists.items():
            titles = self._titles[other]
            names[name] = [
                titles.get(record_id, "/").partition("/")[2] for record_id in record[name]
            ]
        if kind in NAMES:
            more = NAMES[kind](self, record, names)
            if more is None:
                return None
            names |= more
        if "notices" in record:
            names["notices"] = without_addresses(record["notices"])
        return {**record, **names}

    def names_of_rule(self, record: Record, names: Record) -> Record | None:
        """Name another company's source with that company.

        A rule belongs to the company whose run template it starts.
        """
        if record["runtemplate_id"] not in self.records[TEMPLATES.item]:
            return None
        source_id = record["event_source_id"] or 0
        owner = self.records["eventsource"].get(source_id, {}).get("company")
        if owner in (None, RULES.company(names)):
            return {}
        return {"event_source": self.title("eventsource", source_id)}

    def names_of_template(self, record: Record, _names: Record) -> Record:
        """Add its application, which alone knows what names it."""
        return {"application": self.records["app"].get(record["app_id"], {"name": ""})}

    def names_of_type(self, record: Record, _names: Record) -> Record:
        """Return the texts that files hold in several languages."""
        translations: Record = record["translations"]
        return translations

    def _called(self, kind: str, number: int | None) -> str | None:
        """Return how records of the same company refer to a record; None: it is unknown."""
        record = self.records[kind].get(number or 0)
        return FILES[kind].bare_title(record) if record else None

    def id_of(self, kind: str, content: Record) -> int | None:
        """Return the id of the record that a file's content describes; None: there is none yet."""
        form = FILES[kind]
        if not form.is_shared:
            return self._ids[kind].get(form.key(content))
        uuid = str(content.get("uuid") or "").lower()
        by_uuid = self._of_uuid[kind].get(uuid)
        if by_uuid is not None or (uuid and form.knows_new_by_uuid):
            return by_uuid
        owners = self._of_bare_title[kind].get(form.bare_title(content), {})
        if form.says_owner(content):
            return owners.get(form.owner(content))
        # Without an owner the shared record is meant, else the only one.
        return owners.get(None, next(iter(owners.values())) if len(owners) == 1 else None)

    def with_owner(self, kind: str, content: Record) -> Record:
        """Return a file's content with its future company: without one, the current owner stays."""
        if not FILES[kind].is_shared or FILES[kind].says_owner(content):
            return content
        number = self.id_of(kind, content)
        owner = None if number is None else FILES[kind].owner(self.records[kind][number])
        return {**content, "company": owner}

    def find_by_title(self, kind: str, title: str) -> int | None:
        """Return the id of the record with this title; not for applications. None: none."""
        return next(iter(self.find_all(kind, title)), None)

    def find_named(self, named: Named) -> Sequence[int]:
        """Return the ids of the records that a reference may mean; applications may be several."""
        for word in FILES[named.kind].words_meant(named):
            if numbers := self.find_all(named.kind, word):
                return numbers
        return ()

    def find_all(self, kind: str, word: Word) -> Sequence[int]:
        """Return the ids of the records of a kind that a word may mean."""
        return self._of_word[kind].get(word, ())

    def find_by_word(self, kind: str, word: str) -> int | None:
        """Return the id of the record with this title, or the only one with this bare title.

        None: there is none, or several.
        """
        by_title = self.find_by_title(kind, word)
        if by_title is not None:
            return by_title
        bare = [*self._of_bare_title[kind].get(word, {}).values()]
        return bare[0] if len(bare) == 1 else None

    def titles(self, kind: str) -> Iterable[str]:
        """Return the display names of the records of a kind."""
        return self._titles[kind].values()

    def title(self, kind: str, number: int) -> str:
        """Return a record's display name."""
        return self._titles[kind][number]

    def references_of(self, kind: str, content: Record) -> Iterator[tuple[str, int]]:
        """Yield the kinds and ids of the known records that a file's content refers to."""
        for named in FILES[kind].named(content):
            yield from ((named.kind, number) for number in self.find_named(named))

    def dependents(self, kind: str, number: int) -> Sequence[tuple[str, int]]:
        """Return the kinds and ids of the records that refer to one."""
        return self._dependents.get((kind, number), [])

    @functools.cached_property
    def _dependents(self) -> Mapping[tuple[str, int | None], list[tuple[str, int]]]:
        found: dict[tuple[str, int | None], list[tuple[str, int]]] = defaultdict(list)
        for other, form in FILES.items():
            for number, record in self.records[other].items():
                referred: set[tuple[str, int | None]] = set()
                for each in form.words.references:
                    if each.many:
                        for named in form.listed(each, record):
                            referred |= {(each.kind, one) for one in self.find_named(named)}
                    else:
                        referred.add((each.kind, record[each.field]))
                for key in referred:
                    found[key].append((other, number))
        return found


NAMES: Mapping[str, Callable[[RecordIndex, Record, Record], Record | None]] = {
    "credential_type": RecordIndex.names_of_type,
    RULES.item: RecordIndex.names_of_rule,
    TEMPLATES.item: RecordIndex.names_of_template,
}
"""What the index adds to records of a kind, besides their references."""


def with_references(kinds: Iterable[str]) -> set[str]:
    """Return these kinds and those they refer to."""
    needed: set[str] = set()
    waiting = [*kinds]
    while waiting:
        kind = waiting.pop()
        if kind not in needed:
            needed.add(kind)
            waiting += [reference.kind for reference in FILE_KINDS[kind].references]
    return needed


def without_addresses(notices: Record) -> dict[str, Any]:
    """Return notices as files hold them, without the Slack address: it is a secret."""
    return {
        name: {key: value for key, value in channel.items() if key != "uri"}
        if isinstance(channel, dict)
        else channel
        for name, channel in notices.items()
    }
