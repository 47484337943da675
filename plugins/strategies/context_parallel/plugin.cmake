list(APPEND needs SHARED_CODE)   # its tiles are tested with other plugins on GPUs
