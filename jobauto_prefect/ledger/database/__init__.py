"""The database behind the ledger: connections, its clock, migrations, what it announces."""
