list(APPEND needs SHARED_CODE)   # its tests open nf4.so too
