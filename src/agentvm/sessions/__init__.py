"""Sessions — what goes on beside the turns: titles and the upkeep of the search; and carrying sessions out and in."""
