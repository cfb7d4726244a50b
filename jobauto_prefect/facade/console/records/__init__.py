"""Pages of what people define: lists, records and forms of one make for all kinds."""
