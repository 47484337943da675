#pragma once
#include <capstan/base/export.h>
#include <capstan/base/json.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/plugin/registry.h>

#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

// Models that are published around a text model: transformers' …ForConditionalGeneration, whose config.json has the
// text model's own in a table of it. Of those Capstan trains the text model.

/// The table's key.
inline constexpr const char* text_table = "text_config";

/// Whether the config.json is of a model around a text model.
bool is_wrapper(const Json& config);

/// What the config.json says of the model that is trained: the text model's table where there is one.
const Json& text_part(const Json& config);

/// model_type; "" where it is not said.
std::string family_of(const Json& config);

/// Whether the plugin reads such wrappers: it has a table of their config.json's keys ("config.json of mistral3") with
/// "text_config" in it.
bool reads_wrapper(const plugin::Registration& registration, const std::string& family);

/// Where the text model's records are in the files of a wrapper. `published` gives the names of transformers' modules,
/// which adapters bear too; files have these or older ones (language_model.model.…). All tensors that are not the text
/// model's are kept.
layout::FileMap in_wrapper(layout::FileMap map);

/// Whether the folder's safetensors files hold a head; nothing: it has no such files.
std::optional<bool> has_head(const std::string& folder);
/// What is to be said where the wrapper and its text model do not say the same of a tied head, and the files decide.
std::string tied_note(const std::optional<bool>& outer, const std::optional<bool>& inner, bool has_head);

/// Whether the folder's files hold a block's experts in two tensors, as Qwen 3.5 is published, instead of three of each
/// expert, as transformers saves them; nothing: it has no such files.
std::optional<bool> has_fused_experts(const std::string& folder);

}  // namespace hf
CAPSTAN_END_NAMESPACE
