"""Sessions — what goes on beside the turns: titles, and keeping the search quick and the deleted gone."""
