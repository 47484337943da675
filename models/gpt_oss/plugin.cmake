list(APPEND needs SHARED_CODE)   # its tests open gpt_oss.so too
