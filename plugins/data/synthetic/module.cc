#include "synthetic.h"

CAPSTAN_DATA("synthetic", "1.0", "random tokens over the model's vocabulary, to measure speed and memory",
             synthetic::SyntheticData, synthetic::SyntheticOptions)
