set(needs ENGINE)   # LibTorch records what it traces
