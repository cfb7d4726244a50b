"""The services beside the facade: windows, outbox, reconciler, events, retention."""
