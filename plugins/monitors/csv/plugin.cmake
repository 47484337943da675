list(APPEND needs SHARED_CODE)   # a test includes the file of its entry
