"""Commands — what a peer can ask: one file per noun, one function per command."""
