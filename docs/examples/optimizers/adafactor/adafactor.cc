#include "adafactor.h"

CAPSTAN_OPTIMIZER("adafactor", "1.0", "Adafactor: second moments by rows and columns, steps as large as parameters",
                  adafactor::Adafactor, adafactor::AdafactorOptions)
