#pragma once
#include <capstan/base/export.h>
#include <capstan/config/file_keys.h>
#include <capstan/config/value.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

// What a model plugin says of the files of Hugging Face's folders (Registration::file_keys and file_defaults): which
// keys it uses is said by its options' spellings; here is what becomes of the others, and what a missing one means.

/// Keys that transformers writes for models of every family: tables "config.json" and "generation_config.json".
/// `families` are added: "config.json of llama".
std::vector<config::FileKeys> file_keys(std::vector<config::FileKeys> families);

/// The table "config.json of FAMILY".
config::FileKeys family_keys(const std::string& family, std::vector<config::FileKey> keys);

/// The table "config.json of FAMILY" of models around a text model, such as "mistral3" with "text_config" in it and the
/// class "Mistral3ForConditionalGeneration". With it a plugin says that it trains the text model in their folders.
config::FileKeys wrapper_keys(const std::string& family, const std::string& architecture);

/// Keys that change nothing, for one reason.
std::vector<config::FileKey> neutral_keys(const std::vector<std::string>& names, const std::string& reason);
/// Keys that may have this value alone, and why.
std::vector<config::FileKey> only_keys(const std::vector<std::string>& names, const std::string& value,
                                       const std::string& reason);
/// The keys of all lists.
std::vector<config::FileKey> joined(std::vector<std::vector<config::FileKey>> lists);
/// Names of Capstan's options that no config.json has: transformers does not read them there, and so Capstan does not.
std::vector<config::FileKey> own_names(const std::vector<std::string>& names);
/// The same of the options that decoders with rotary attention share, and other keys of their files. `options`: keys
/// that other families refuse, and this one has as options ("partial_rotary_factor"); `rope`: as
/// describe_rotary_positions'.
std::vector<config::FileKey> rotary_keys(const std::set<std::string>& options = {},
                                         const std::string& rope = "rope_parameters.");

/// The same for families with decoder::RotaryPartOptions.
std::vector<config::FileKey> rotary_part_keys();

/// What transformers takes for a family's keys that are missing.
struct RotaryDefaults {
  double epsilon = 1e-6;
  double theta = 1e4;
  std::int64_t length = 2048;
  std::string activation = "silu";
  bool tied = false;
};
config::Preset rotary_defaults(const RotaryDefaults& family, const config::Preset& more = {});

}  // namespace decoder
CAPSTAN_END_NAMESPACE
