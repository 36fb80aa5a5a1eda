"""CLI — `avm`: one file per subcommand."""
