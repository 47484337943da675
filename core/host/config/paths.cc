#include "config/paths.h"

#include <filesystem>

namespace capstan::config {

std::string absolute_path(const std::string& path, const Origin& origin) {
  if (path.empty()) return path;
  const bool in_file = origin.layer == Origin::Layer::file || origin.layer == Origin::Layer::model_file;
  const auto folder = in_file ? std::filesystem::path(origin.file).parent_path() : std::filesystem::path();
  return std::filesystem::absolute(folder / path).lexically_normal().string();
}

void make_absolute(Value& value, const Origin& origin) {
  if (auto* text = std::get_if<std::string>(&value)) *text = absolute_path(*text, origin);
  if (auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (auto& text : *texts) text = absolute_path(text, origin);
  }
}

}  // namespace capstan::config
