#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace record {

/// Tells the weights of a model's folder from others without reading all of them: XXH64 of its config.json, and of the
/// name, dtype and shape of each tensor of its safetensors files with bytes that are spread evenly over it, some 4,096
/// pieces of 64 bytes in all and one of each tensor at least. Which file has which tensor makes no difference. Training
/// changes all of a tensor; a few of its elements may be others unnoticed. Throws Error for a file that is damaged.
std::string fingerprint(const std::filesystem::path& folder);

}  // namespace record
CAPSTAN_END_NAMESPACE
