"""The ledger's database: connections, its clock, migrations, announcements."""
