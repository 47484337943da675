list(APPEND libraries capstan::adamw capstan::matrix_rules)
