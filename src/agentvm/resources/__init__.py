"""Resources — everything that agents are made of has a name, versions, and a place to be found."""
