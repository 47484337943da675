# Follows.
