set(needs ENGINE)   # it asks LibTorch's allocator
