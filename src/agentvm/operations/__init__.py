"""Operations — everything that can be asked of the server, one function each, whichever way it is asked."""
