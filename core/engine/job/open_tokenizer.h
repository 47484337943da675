#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>
#include <capstan/tokenizer/open.h>

#include <optional>
#include <string>
#include <vector>

#include "job/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// Opens what [tokenizer] or data.tokenizer means, once the model's options are known; nothing where there is a fault.
std::optional<tokenizer::Opened> open_tokenizer(const setup::Configuration& config, const Plugins& plugins,
                                                plugin::Host& host, Diagnostics& faults);

/// The request with what it says of the tokenizer and of the model's folder.
data::SplitRequest request_with(const tokenizer::Opened& tokenizer, const std::string& model_folder,
                                data::SplitRequest request);

/// What the configuration names and is not there yet: the model for which a preset stands in, the tokenizer, files of
/// the data. For people: "model.path (bigscience/bloom-560m)". Says nothing of files that are there and wrong.
std::vector<std::string> absent_files(const setup::Configuration& config, const Plugins& plugins,
                                      const plugin::Host& host);

}  // namespace job
CAPSTAN_END_NAMESPACE
