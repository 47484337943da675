// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/tensor_parallel/place.cc"
#include "plugins/strategies/tensor_parallel/tensor_parallel.cc"
