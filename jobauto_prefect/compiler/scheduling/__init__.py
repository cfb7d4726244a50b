"""When a run template runs: schedules, windows, calendars and deadlines."""
