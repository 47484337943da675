#include "config/layers.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace capstan::config {
namespace {

// Reads files depth first; chain_ holds the files that are being read, from the first one to this.
class LayerReader {
 public:
  explicit LayerReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void read(const std::string& file) {
    if (++files_ > most_files) {
      throw Error(cat("extends reads more than ", most_files, " files: files that extend several others double them"),
                  "let each file be extended once", chain_.front());
    }
    chain_.push_back(file);
    auto own = read_toml(file, diagnostics_);
    const auto extends =
        std::find_if(own.begin(), own.end(), [](const Item& item) { return item.path[0] == "extends"; });
    if (extends != own.end()) {
      const Item request = *extends;
      std::erase_if(own, [](const Item& item) { return item.path[0] == "extends"; });
      for (const auto& base : bases(request)) read_base(base, request.origin);
    }
    std::move(own.begin(), own.end(), std::back_inserter(items));
    chain_.pop_back();
  }

  std::vector<Item> items;

 private:
  std::vector<std::string> bases(const Item& request) {
    if (request.value) {
      if (const auto* one = std::get_if<std::string>(&*request.value)) return {*one};
      if (const auto* many = std::get_if<std::vector<std::string>>(&*request.value)) return *many;
    }
    diagnostics_.add(request.origin.text(), "extends must be a file name or a list of file names",
                     "for example extends = \"base/common.toml\"");
    return {};
  }

  void read_base(const std::string& base, const Origin& origin) {
    const auto file = (std::filesystem::path(origin.file).parent_path() / base).lexically_normal().string();
    if (!is_there(file)) {
      throw Error(cat("extends \"", base, "\", but ", file, " does not exist"),
                  "the name is taken from the folder of the file that extends", origin.text());
    }
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      std::error_code differs;  // both were just there
      if (!std::filesystem::equivalent(chain_[i], file, differs)) continue;
      std::vector<std::string> circle(chain_.begin() + static_cast<std::ptrdiff_t>(i), chain_.end());
      circle.push_back(chain_[i]);
      throw Error("extends goes in a circle: " + join(circle, " -> "), "remove one of these extends", origin.text());
    }
    read(file);
  }

  static constexpr std::size_t most_files = 200;
  Diagnostics& diagnostics_;
  std::vector<std::string> chain_;
  std::size_t files_ = 0;
};

}  // namespace

std::vector<Item> read_layers(const std::string& file, Diagnostics& diagnostics) {
  LayerReader reader(diagnostics);
  reader.read(file);
  return std::move(reader.items);
}

}  // namespace capstan::config
