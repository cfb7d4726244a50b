"""Create or update: what each record kind takes, what it is known by, and who may."""
