#include <capstan/base/text.h>
#include <capstan/config/run_name.h>

#include <vector>

namespace capstan::config {

std::string name_of_run(const std::filesystem::path& file) {
  if (file.empty()) return {};  // a command was given a model's folder; absolute("") throws
  std::vector<std::string> below;
  bool in_configs = false;
  for (const auto& folder : std::filesystem::absolute(file).lexically_normal().parent_path()) {
    if (folder == "configs") {
      in_configs = true;
      below.clear();
    } else if (in_configs) {
      below.push_back(folder.string());
    }
  }
  if (!below.empty()) below.erase(below.begin());  // the collection itself
  below.push_back(file.stem().string());
  return join(below, "-");
}

}  // namespace capstan::config
