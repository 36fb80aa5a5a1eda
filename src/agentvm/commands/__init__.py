"""Commands — carries out the operations that a WebSocket or a program in the same process asks for."""
