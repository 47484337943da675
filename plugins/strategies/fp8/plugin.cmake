list(APPEND needs SHARED_CODE)   # its tests open fp8.so too
