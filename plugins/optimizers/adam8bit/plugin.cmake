list(APPEND libraries capstan::adamw)
# Every instruction set and a GPU round alike, so products and sums are not contracted; the loops are to be vectorised.
set_source_files_properties("${folder}/blocks.cc" "${folder}/update_cpu.cc" PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-O3;-ffp-contract=off;-fno-math-errno;-fno-trapping-math")
