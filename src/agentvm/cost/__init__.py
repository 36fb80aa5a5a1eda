"""Cost — the monthly cost of serving a number of users, from measured coefficients and a price table."""
