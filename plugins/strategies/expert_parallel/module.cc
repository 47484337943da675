#include "expert_parallel.h"

CAPSTAN_STRATEGY("expert_parallel", "0.1.0", "places a mixture's experts on ranks, to which tokens travel",
                 expert_parallel::ExpertParallel, expert_parallel::ExpertParallelOptions)
