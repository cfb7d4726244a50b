"""`jobauto topic attach|detach`: sets which records have a topic."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from jobauto_prefect.cli.completion import complete_names
from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.terminal import print_json, print_line
from jobauto_prefect.cli.records.lookup import find_id
from jobauto_prefect.wording import escape_controls

Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help="Its number, or its name.", autocompletion=complete_names("topic")
    ),
]


def _option(option: str, metavar: str, noun: str, kind: str) -> Any:
    help_ = f"{noun}; may be repeated."
    return typer.Option(option, metavar=metavar, help=help_, autocompletion=complete_names(kind))


Companies = Annotated[list[str] | None, _option("--company", "SLUG", "A company", "company")]
Templates = Annotated[
    list[str] | None, _option("--template", "COMPANY/NAME", "A run template", "runtemplate")
]
Apps = Annotated[
    list[str] | None, _option("--app", "APP", "An application by id, UUID or name", "app")
]
Change = Callable[[list[str], str], list[str]]
"""The names of a record's topics, and of one of them: the names it will have."""


def attach(
    topic: Topic,
    company: Companies = None,
    template: Templates = None,
    app: Apps = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Attach a topic to companies, run templates and applications.

    Example: jobauto topic attach money --company acme --template other/Nightly
    """

    def with_it(names: list[str], name: str) -> list[str]:
        return [*(topic_name for topic_name in names if topic_name != name), name]

    _change_topics(topic, _chosen_records(company, template, app), with_it, as_json, url)


def detach(
    topic: Topic,
    company: Companies = None,
    template: Templates = None,
    app: Apps = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Remove a topic from companies, run templates and applications.

    Example: jobauto topic detach money --company acme
    """

    def without_it(names: list[str], name: str) -> list[str]:
        return [topic_name for topic_name in names if topic_name != name]

    _change_topics(topic, _chosen_records(company, template, app), without_it, as_json, url)


def _chosen_records(
    companies: Iterable[str] | None, templates: Iterable[str] | None, apps: Iterable[str] | None
) -> list[tuple[str, str]]:
    """Return the kinds and names of the given records.

    Raises:
        BadParameter: no record is given.
    """
    words_of = {"company": companies, "runtemplate": templates, "app": apps}
    named = [(kind, word) for kind, words in words_of.items() for word in words or ()]
    if not named:
        raise typer.BadParameter("name the records", param_hint="--company, --template, --app")
    return named


def _change_topics(
    topic: str, named: list[tuple[str, str]], change: Change, as_json: bool, url: str | None
) -> None:
    from jobauto_prefect.cli.connection.client import Client, call_facade
    from jobauto_prefect.kinds import KINDS

    async def work(client: Client) -> list[Any]:
        written = []
        for kind, word in named:
            number = await find_id(client, kind, word)
            topic_id = await find_id(client, "topic", topic)
            name = (await client.get(f"/topic/{topic_id}.json"))["name"]
            before = (await client.get(f"/{kind}/{number}.json")).get("topics", [])
            record = await client.post(kind, {"id": number, "topics": change(before, name)})
            written.append({"kind": kind, "id": number, "topics": record.get("topics", [])})
        await client.wait_for_prefect()
        return written

    records = call_facade(url, work, writes=True)
    if as_json:
        print_json({"changed": records})
        return
    for record in records:
        topics = ", ".join(record["topics"]) or "none"
        print_line(
            escape_controls(f"{KINDS[record['kind']].noun} {record['id']} has the topics {topics}")
        )
