"""Operations — every request that the server executes, one function each, for all faces."""
