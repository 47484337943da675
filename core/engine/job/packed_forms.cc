#include "job/packed_forms.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "hf/door.h"
#include "job/plugins.h"

namespace capstan::job {

std::vector<nn::PackedForm> forms_of_folder(const std::string& folder, std::vector<nn::PackedForm> known,
                                            plugin::Host& host) {
  const auto quantization = hf::door().quantization_of_folder(folder);
  if (!quantization || quantization->is_decodable) return known;
  const auto& method = quantization->method;
  const auto is_known = [&] {
    return std::any_of(known.begin(), known.end(), [&](const auto& form) { return method == form.method; });
  };
  if (is_known()) return known;  // whether its tensors can be taken is judged where they are read
  std::string installed;
  for (const auto& [table, strategy] : installed_strategies(host)) {
    for (auto& form : strategy->packed_forms()) {
      installed += cat(installed.empty() ? "" : ", ", form.method, " (", table, ")");
      known.push_back(std::move(form));
    }
  }
  if (is_known()) return known;
  throw Error(cat("its weights are quantized", method.empty() ? "" : " (" + method + ")", ", which is not supported"),
              cat("take the model that it was quantized from, or one in a form of docs/model-files.md",
                  installed.empty() ? "" : cat(", or of ", installed)),
              (std::filesystem::path(folder) / "config.json").string());
}

nn::Codecs codecs_of(const std::vector<nn::WeightPtr>& weights) {
  nn::Codecs codecs;
  for (const auto& weight : weights) {
    const auto* codec = weight->keeping_codec();
    if (!codec || !codec->capabilities().has_files) continue;
    for (const auto& record : weight->records()) codecs[record.name] = weight->codec();
  }
  return codecs;
}

std::vector<std::string> forms_of_units(const std::vector<nn::Unit*>& units) {
  std::set<std::string> forms;
  for (const auto* unit : units) {
    for (const auto& [record, codec] : codecs_of(unit->weights())) forms.insert(codec->form());
  }
  return {forms.begin(), forms.end()};
}

}  // namespace capstan::job
