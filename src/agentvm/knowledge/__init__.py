"""Knowledge — documents that agents look things up in: parsed in a jail, cut into passages, indexed and searched."""
