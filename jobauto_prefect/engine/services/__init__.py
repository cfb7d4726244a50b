"""What runs beside the facade: windows, outbox, reconciler, events, retention."""
