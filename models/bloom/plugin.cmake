list(APPEND needs SHARED_CODE)   # its tests open bloom.so too
