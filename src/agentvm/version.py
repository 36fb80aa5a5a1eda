"""Version — in a file of its own, so that `avm version` imports nothing else."""

VERSION = "0.1.0"
