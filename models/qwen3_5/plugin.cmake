list(APPEND needs SHARED_CODE)   # its tests open qwen3_5.so too
