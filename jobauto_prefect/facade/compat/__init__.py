"""The published dialect: what programs written for the reference service send and expect."""
