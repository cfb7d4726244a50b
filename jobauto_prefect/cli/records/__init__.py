"""What commands of records share: names, edits, lists and their columns."""
