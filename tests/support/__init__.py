"""What tests share: real servers, databases and processes, and what looks at them."""
