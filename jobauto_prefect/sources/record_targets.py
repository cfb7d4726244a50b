"""From the records of the ledger to targets."""

from jobauto_prefect.ledger.records import EventSource
from jobauto_prefect.ledger.secrets import SecretBox
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.targets import Target, TargetRules

PASSWORD = "db_password"  # noqa: S105 - the name of a column


def source_target(source: EventSource, box: SecretBox) -> Target:
    """Return the database of a source, with its password in clear.

    Raises:
        KeyMissing: the password was stored with another key.
    """
    sealed = {PASSWORD: source.db_password} if source.db_password else {}
    return Target(
        kind=source.db_connection,
        host=source.db_host,
        port=source.db_port,
        database=source.db_database,
        username=source.db_username,
        password=box.open(sealed).get(PASSWORD),
    )


def source_rules(settings: Settings) -> TargetRules:
    """Return which databases the settings allow."""
    return TargetRules(settings.event_source_targets, settings.home)


def webhook_rules(settings: Settings) -> TargetRules:
    """Return where the settings allow webhooks to be sent."""
    return TargetRules(settings.webhook_targets, use="a webhook", setting="JOBAUTO_WEBHOOK_TARGETS")
