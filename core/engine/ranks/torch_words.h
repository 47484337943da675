#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <exception>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// What the system or LibTorch threw, where it is no bug but a lack of memory or what the file system said, in words.
/// Nothing for an Error, and for all else.
std::optional<Error> in_words(const std::exception& exception);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
