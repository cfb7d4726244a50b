"""The ledger: records, the sessions that write the audit trail, states, secrets."""
