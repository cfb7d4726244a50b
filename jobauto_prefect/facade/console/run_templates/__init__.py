"""The console's pages for run templates."""
