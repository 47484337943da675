#include "squad.h"

CAPSTAN_DATA("squad", "1.0", "questions about a text, in SQuAD v1.1's JSON format", squad::SquadData,
             squad::SquadOptions)
