"""Creating and updating records: what bodies may contain, and who may write what."""
