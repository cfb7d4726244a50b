"""What the event loops of the service do for long, watched during all tests."""
