#include "assembly/packed_forms.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>

#include "assembly/plugins.h"
#include "hf/family.h"

namespace capstan::assembly {

std::vector<nn::PackedForm> forms_of_folder(const std::string& folder, std::vector<nn::PackedForm> known,
                                            plugin::Host& host) {
  const auto method = hf::quantization_of_folder(folder);
  if (!method) return known;
  const auto is_known = [&] {
    return std::any_of(known.begin(), known.end(), [&](const auto& form) { return *method == form.method; });
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
  throw Error(cat("its weights are quantized", method->empty() ? "" : " (" + *method + ")", ", which is not supported"),
              cat("take the model that it was quantized from",
                  installed.empty() ? "" : ", or one that was quantized by " + installed),
              (std::filesystem::path(folder) / "config.json").string());
}

}  // namespace capstan::assembly
