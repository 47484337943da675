#pragma once
// What every kernel here starts from: the launchers' declarations, float types, warps.
#include <capstan/kernels/floats.cuh>
#include <capstan/kernels/warps.cuh>

#include "kernels/launchers.h"
