#include "recompute.h"

CAPSTAN_STRATEGY("recompute", "0.1.0",
                 "runs units, or regions of them, again in backward instead of keeping activations",
                 recompute::Recompute, recompute::RecomputeOptions)
