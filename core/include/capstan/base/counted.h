#pragma once
#include <capstan/base/export.h>

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

CAPSTAN_BEGIN_NAMESPACE

/// The word that agrees with the number: plural(1, "is", "are") -> "is".
template <std::integral Number>
std::string plural(Number number, std::string_view one, std::string_view many) {
  return std::string(number == 1 ? one : many);
}

/// A number and its noun: counted(1, "rank") -> "1 rank", counted(0, "copy", "copies") -> "0 copies". Without a
/// plural of its own the noun gets an s.
template <std::integral Number>
std::string counted(Number number, std::string_view noun, std::string_view many = {}) {
  const auto regular = std::string(noun) + "s";
  return std::to_string(number) + " " + plural(number, noun, many.empty() ? std::string_view(regular) : many);
}

CAPSTAN_END_NAMESPACE
