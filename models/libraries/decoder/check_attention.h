#pragma once
#include <capstan/decoder/decoder.h>

#include <cstdint>

namespace capstan::decoder {

/// Throws Error where a block's Spec asks its kind of attention for what that does not compute.
void check_attention(const Spec& spec, std::int64_t block);

}  // namespace capstan::decoder
