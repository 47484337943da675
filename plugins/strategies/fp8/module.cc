#include "fp8.h"

CAPSTAN_STRATEGY("fp8", "0.1.0", "multiplies chosen layers' matrices in 8 bits", fp8::Fp8, fp8::Fp8Options)
