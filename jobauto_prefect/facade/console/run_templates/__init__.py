"""Pages of run templates: find one, see how it does, run, pause and change it."""
