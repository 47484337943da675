set(needs ENGINE)   # ranks, their devices and what connects them
