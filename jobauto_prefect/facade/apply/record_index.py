"""The records there are, as files would say them."""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.definitions.kinds import FILE_KINDS
from jobauto_prefect.facade.apply.action_references import MODES, to_file_actions
from jobauto_prefect.facade.apply.record_kinds import (
    OWNED,
    Key,
    Record,
    bare_title,
    calendars_in,
    company_bearing,
    company_referring,
    key_of,
    matching_apps,
    owner_in,
    reference_in,
    says_owner,
    title_of,
    titles_listed,
    titles_meant,
    topics_in,
)


class RecordIndex:
    """Everything the facade lists, by kind and id, with the fields that files have."""

    def __init__(
        self,
        listed: Mapping[str, Mapping[int, Record]],
        extra_env: Collection[str] = (),
        timezone: str = "UTC",
    ) -> None:
        """Index the records of `listed`: kind -> id -> record as the facade shows it.

        All that these refer to is among them. `extra_env` are the service's names that values of
        run templates may have, `timezone` is the zone of companies that name none.
        """
        self.extra_env = extra_env
        self.timezone = timezone
        self._ids: dict[str, dict[Key, int]] = {}
        self._titles: dict[str, dict[int, str]] = {}
        self._of_title: dict[str, dict[str, int]] = {}
        self.records: dict[str, dict[int, Record]] = {}
        for kind in FILE_KINDS:
            given = listed.get(kind, {})
            records = {
                number: self._as_file(kind, record)
                for number, record in given.items()
                # A rule by which another company hears of events is that company's.
                if kind != "eventrule" or record["runtemplate_id"] in self.records["runtemplate"]
            }
            self.records[kind] = records
            self._ids[kind] = {
                key_of(kind, records[number]): number for number in sorted(records, reverse=True)
            }
            self._titles[kind] = {
                number: title_of(kind, record) for number, record in records.items()
            }
            titles = sorted(self._titles[kind].items(), reverse=True)
            self._of_title[kind] = {title: number for number, title in titles}
        templates = self.records["runtemplate"].items()
        self.records["runtemplate"] = {
            number: {
                **template,
                **{mode: to_file_actions(template.get(mode, {}), self._titles) for mode in MODES},
            }
            for number, template in templates
        }

    def _as_file(self, kind: str, record: Record) -> Record:
        """Return a record with its references by natural key, beside the fields there are.

        Kinds before its own are known already.
        """
        names: dict[str, Any] = {
            name: self._called(reference.kind, record[reference.field])
            for name, reference in FILE_KINDS[kind].named_in_files.items()
        }
        if kind == "eventrule":
            source = self.records["eventsource"].get(record["event_source_id"] or 0, {})
            if source.get("company") not in (None, company_referring(kind, names)):
                names["event_source"] = title_of("eventsource", source)
        for name, other in FILE_KINDS[kind].lists.items():
            titles = self._titles[other]
            names[name] = [
                titles.get(record_id, "/").partition("/")[2] for record_id in record[name]
            ]
            names[f"{name}_ids"] = record[name]
        if kind == "credential_type":
            names |= record["translations"]
        if kind == "runtemplate":  # which texts mean its application, only the application tells
            names["application"] = self.records["app"].get(record["app_id"], {"name": ""})
        if "notices" in record:
            names["notices"] = _without_addresses(record["notices"])
        return {**record, **names}

    def _called(self, kind: str, number: int | None) -> str | None:
        """Return how records of the same company refer to a record; None: it is not known."""
        record = self.records[kind].get(number or 0)
        return bare_title(kind, record) if record else None

    def id_of(self, kind: str, content: Record) -> int | None:
        """Return the id of the record that a file's content is about; None: there is none yet."""
        if kind not in OWNED:
            return self._ids[kind].get(key_of(kind, content))
        uuid = str(content.get("uuid") or "").lower()
        of_uuid = (
            number
            for number, record in sorted(self.records[kind].items())
            if uuid and str(record.get("uuid") or "").lower() == uuid
        )
        by_uuid = next(of_uuid, None)
        return (
            by_uuid
            if by_uuid is not None or (kind == "app" and uuid)
            else self._named(kind, content)
        )

    def _named(self, kind: str, content: Record) -> int | None:
        """Return the id of a file's record by its title and the owner the file says.

        Without an owner the shared one's, else that of the only one. None: there is none, or there
        are several of companies.
        """
        title = bare_title(kind, content)
        owners = {
            number: owner_in(kind, record)
            for number, record in sorted(self.records[kind].items(), reverse=True)
            if bare_title(kind, record) == title
        }
        by_owner = {owner: number for number, owner in owners.items()}  # the first by id stays
        if says_owner(kind, content):
            return by_owner.get(owner_in(kind, content))
        return by_owner.get(None, next(iter(by_owner.values())) if len(by_owner) == 1 else None)

    def with_owner(self, kind: str, content: Record) -> Record:
        """Return a file's content with its company to be: an owner that is not said stays."""
        if kind not in OWNED or says_owner(kind, content):
            return content
        number = self.id_of(kind, content)
        owner = None if number is None else owner_in(kind, self.records[kind][number])
        return {**content, "company": owner}

    def find_by_title(self, kind: str, title: str, company: str | None = None) -> int | None:
        """Return the id of the record that a reference in a company's record means; None: none."""
        for wanted in titles_meant(kind, title, company):
            if (number := self._of_title[kind].get(wanted)) is not None:
                return number
        return None

    def find_by_word(self, kind: str, word: str) -> int | None:
        """Return the id of the record that has this title, or is the only one without the company.

        None: there is none, or several.
        """
        by_title = self.find_by_title(kind, word)
        bare = [
            number
            for number, record in self.records[kind].items()
            if bare_title(kind, record) == word
        ]
        return by_title if by_title is not None or len(bare) != 1 else bare[0]

    def titles(self, kind: str) -> Iterable[str]:
        """Return how people call the records of a kind."""
        return self._titles[kind].values()

    def title(self, kind: str, number: int) -> str:
        """Return how people call a record."""
        return self._titles[kind][number]

    def references_of(self, kind: str, content: Record) -> Iterator[tuple[str, int]]:
        """Yield the kinds and ids of the known records that a file's content refers to."""
        for name, reference in FILE_KINDS[kind].named_in_files.items():
            title = reference_in(kind, name, content)
            if reference.kind == "app":
                apps = self.records["app"].values()
                yield from (("app", app["id"]) for app in matching_apps(content, apps))
            elif title is not None:
                number = self.find_by_title(reference.kind, title, company_referring(kind, content))
                if number is not None:
                    yield reference.kind, number
        for member, other in FILE_KINDS[kind].lists.items():
            numbers = (self.find_by_title(other, title) for title in titles_listed(member, content))
            yield from ((other, number) for number in numbers if number is not None)
        for name in topics_in(kind, content):
            number = self.find_by_title("topic", name, company_bearing(kind, content))
            if number is not None:
                yield "topic", number
        for name in calendars_in(kind, content):
            number = self.find_by_title("calendar", name)
            if number is not None:
                yield "calendar", number

    def dependents(self, kind: str, number: int) -> Sequence[tuple[str, int]]:
        """Return the kinds and ids of the records that refer to one."""
        return self._dependents.get((kind, number), [])

    @functools.cached_property
    def _dependents(self) -> Mapping[tuple[str, int | None], list[tuple[str, int]]]:
        found: dict[tuple[str, int | None], list[tuple[str, int]]] = {}
        for other, described in FILE_KINDS.items():
            for one_id, record in self.records[other].items():
                referred = {
                    *(
                        (each.kind, record[each.field])
                        for each in described.named_in_files.values()
                    ),
                    *(
                        (named, number)
                        for member, named in described.lists.items()
                        for number in record[f"{member}_ids"]
                    ),
                    *(("topic", number) for number in self._borne(other, record)),
                    *(
                        ("calendar", self.find_by_title("calendar", name))
                        for name in calendars_in(other, record)
                    ),
                }
                for each in referred:
                    found.setdefault(each, []).append((other, one_id))
        return found

    def _borne(self, kind: str, record: Record) -> Iterator[int | None]:
        """Yield the ids of the topics that a record bears; None for a topic that is not known."""
        company = company_bearing(kind, record) if FILE_KINDS[kind].refers_to("topic") else None
        for name in topics_in(kind, record):
            yield self.find_by_title("topic", name, company)


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


def _without_addresses(notices: Record) -> dict[str, Any]:
    """Return notices as files say them: an address of Slack's is a secret."""
    return {
        name: {key: value for key, value in channel.items() if key != "uri"}
        if isinstance(channel, dict)
        else channel
        for name, channel in notices.items()
    }
