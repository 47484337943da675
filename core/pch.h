// The one precompiled header of everything that speaks tensors. Not autograd: its templates are made again in each file
// that only opens this one, which takes 1.7 s, and few call it.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
