"""Claims: which job a flow run is for, whether it starts, and with what."""
