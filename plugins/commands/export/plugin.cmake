set(needs ENGINE)
