"""Runtime — what runs: containers, agents, turns, and the channels that hear of them."""
