#pragma once
#include <capstan/base/export.h>
#include <capstan/data/tokenizer.h>

#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// The tokenizer of that name ("byte"). Throws Error with the nearest name for one that does not exist.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name);

}  // namespace data
CAPSTAN_END_NAMESPACE
