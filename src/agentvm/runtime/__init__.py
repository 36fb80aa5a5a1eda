"""Runtime — running agents, their turns, and the channels that receive their events."""
