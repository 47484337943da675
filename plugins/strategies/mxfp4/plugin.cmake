list(APPEND needs SHARED_CODE)   # its tests open mxfp4.so too
