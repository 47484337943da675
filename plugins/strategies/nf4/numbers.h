#pragma once
// The format's constants: for the host's code and for kernels.
#include <array>

namespace nf4 {

/// The 16 numbers (Dettmers et al. 2023, appendix E), ascending; a code is a place in it.
inline constexpr std::array<float, 16> numbers{-1.0F,
                                               -0.6961928009986877F,
                                               -0.5250730514526367F,
                                               -0.39491748809814453F,
                                               -0.28444138169288635F,
                                               -0.18477343022823334F,
                                               -0.09105003625154495F,
                                               0.0F,
                                               0.07958029955625534F,
                                               0.16093020141124725F,
                                               0.24611230194568634F,
                                               0.33791524171829224F,
                                               0.44070982933044434F,
                                               0.5626170039176941F,
                                               0.7229568362236023F,
                                               1.0F};

/// Where a number's code changes to the next one, as bitsandbytes' kernels have it: a number above it has the next.
inline constexpr std::array<float, 15> borders{
    -0.8480964004993439F,  -0.6106329262256622F,   -0.4599952697753906F, -0.33967943489551544F, -0.23460740596055984F,
    -0.13791173323988914F, -0.045525018125772476F, 0.03979014977812767F, 0.1202552504837513F,   0.2035212516784668F,
    0.2920137718319893F,   0.3893125355243683F,    0.5016634166240692F,  0.6427869200706482F,   0.8614784181118011F};

}  // namespace nf4
