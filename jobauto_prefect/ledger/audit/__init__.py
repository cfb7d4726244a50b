"""The audit trail: its entries, their seals, and archives of whole months."""
