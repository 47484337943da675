list(APPEND libraries capstan::adamw)
