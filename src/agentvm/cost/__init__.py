"""Cost — what serving a number of users takes in a month, from measured coefficients and a price table."""
