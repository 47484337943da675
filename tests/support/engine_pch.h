// The precompiled header of tests that speak tensors. It has autograd, which core/pch.h has not: half of them call it.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "host_pch.h"
