list(APPEND needs SHARED_CODE)   # its tests open qwen3.so too
