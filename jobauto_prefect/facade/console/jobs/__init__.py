"""The console's pages of jobs: the list, one job, its log and its files."""
