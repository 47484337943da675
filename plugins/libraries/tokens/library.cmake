list(APPEND libraries capstan::data_parts)
