"""The values an event gives to the job it starts."""

from collections.abc import Mapping
from typing import Any

from jobauto_prefect.bounded_process import TooExpensive
from jobauto_prefect.compiler.events.event_inputs import check_formats, element_of, fan_out_key
from jobauto_prefect.compiler.events.selectors import FoundFile, UnresolvedSelector
from jobauto_prefect.definitions import Definition, to_text
from jobauto_prefect.definitions.records.value_rules import LARGEST_VALUE
from jobauto_prefect.definitions.storable import is_storable
from jobauto_prefect.jobs.claims.claim import OpenClaim, Refused
from jobauto_prefect.jobs.outcome.event_values import (
    EventValues,
    NotLight,
    ValueQuery,
    ask_for_values,
    values_of,
)
from jobauto_prefect.ledger.access.vouchers import rule_fault
from jobauto_prefect.ledger.events import deliveries
from jobauto_prefect.ledger.records import Delivery, Job
from jobauto_prefect.runtime.protocol import PrefectState


class EventJob:
    """A job that an event started and gives values to."""

    def __init__(self, claim: OpenClaim, job: Job, definition: Definition) -> None:
        self._claim = claim
        self._session = claim.session
        self._job = job
        self._definition = definition

    def take_values(self) -> None:
        """Give the job its event's values, unless it already has them.

        For a rule that fans out, the first job to be claimed creates the others.

        Raises:
            Refused: the event lacks what the rule's mapping names, or has nothing to start a job
                for.
        """
        delivery = deliveries.delivery_of_job(self._session, self._job.id)
        if delivery is None:
            return  # a later attempt has the values of the first
        fault = rule_fault(self._session, delivery.event, delivery.rule, self._job.company_id)
        if fault is not None:
            raise Refused("no_voucher", fault, PrefectState.FAILED)
        query, artifacts = ask_for_values(self._session, delivery, self._definition)
        try:
            given = self._found(query)
            values = self._own_element(delivery, given.values)
            check_formats(self._definition, values)
        except UnresolvedSelector as error:
            raise Refused("unresolved_mapping", str(error), PrefectState.FAILED) from None
        self._take(values, artifacts)
        self._job.warnings = [finding.as_dict() for finding in given.findings]
        self._job.overrides = deliveries.event_variables(delivery.event) | self._job.overrides

    def _found(self, query: ValueQuery) -> EventValues:
        """Return the event's values, from the preflight if they are expensive to find.

        Raises:
            UnresolvedSelector: the event lacks a value, or one is too expensive to find.
            NotLight: they must be found before the transaction.
        """
        found = self._claim.preflight_of(self._job.runtemplate).event_values
        if found is None and query.is_light:
            return values_of(query, self._definition)
        if found is None:
            raise NotLight(values_of, query, self._definition)
        if isinstance(found, TooExpensive):
            reason = f"its values can't be looked up: {found}; narrow the rule's paths"
            raise UnresolvedSelector(reason)
        if isinstance(found, Exception):
            raise found
        return found

    def _own_element(self, delivery: Delivery, values: Mapping[str, Any]) -> Mapping[str, Any]:
        key = fan_out_key(values) if delivery.rule.fan_out else None
        if key is None:
            return values
        if not values[key]:
            raise Refused("nothing_to_do", f"{key} is an empty list", PrefectState.CANCELLED)
        if delivery.element == 0:
            deliveries.fan_out(self._session, delivery, len(values[key]))
        return element_of(values, key, delivery.element)

    def _take(self, values: Mapping[str, Any], artifacts: Mapping[str, int]) -> None:
        job = self._job
        given = job.overrides.keys() | job.override_secrets.keys()
        free = {key: value for key, value in values.items() if key not in given}
        files = {key: value.path for key, value in free.items() if isinstance(value, FoundFile)}
        texts = {key: to_text(value) for key, value in free.items() if key not in files}
        unfit = [key for key, text in texts.items() if not is_storable(text)]
        if unfit:
            message = (
                f"no variable can hold a NUL, or bytes that are not UTF-8: {', '.join(unfit)}; "
                "write the value to a file and pass the file with @file:NAME"
            )
            raise Refused("unresolved_mapping", message, PrefectState.FAILED)
        large = [key for key, text in texts.items() if len(text.encode()) > LARGEST_VALUE]
        if large:
            message = (
                f"too large to be a variable (at most {LARGEST_VALUE} bytes): {', '.join(large)}; "
                "pass it as a file with @file:NAME"
            )
            raise Refused("unresolved_mapping", message, PrefectState.FAILED)
        secret = self._definition.secret_keys & texts.keys()
        plain = {key: text for key, text in texts.items() if key not in secret}
        sealed = self._claim.box.seal({key: texts[key] for key in secret})
        job.overrides = plain | job.overrides
        job.override_secrets = sealed | job.override_secrets
        job.input_files = {key: artifacts[path] for key, path in files.items()}
