"""Pages of what run templates are described with: topics, calendars, credential types."""
