"""Sessions — what goes on beside the turns: titles and the upkeep of the search; and the import and export of sessions."""
