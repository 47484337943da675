// Options of windows, in all blocks or in some.
#include <capstan/base/text.h>
#include <capstan/decoder/rotary_options.h>

#include <algorithm>

namespace capstan::decoder {

void describe_window(config::OptionTable<RotaryOptions> table, const std::string& which) {
  table.add("sliding_window", &RotaryOptions::sliding_window)
      .min(1)
      .doc("a token attends to itself and the tokens before it, this many in all; " + which);
}

WindowOptions WindowOptions::completed(std::int64_t layers, std::int64_t global_every) const {
  auto made = *this;
  for (auto i = static_cast<std::int64_t>(layer_types.size()); i < layers; ++i)
    made.layer_types.emplace_back((i + 1) % global_every != 0 ? "sliding_attention" : "full_attention");
  return made;
}

bool WindowOptions::limits_blocks() const {
  return use_sliding_window.value_or(false) &&
         std::find(layer_types.begin(), layer_types.end(), "sliding_attention") != layer_types.end();
}

std::set<std::int64_t> WindowOptions::blocks_without_window(std::int64_t layers) const {
  std::set<std::int64_t> blocks;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_listed = at < layer_types.size();
    if (is_listed ? layer_types[at] != "sliding_attention" : i < max_window_layers) blocks.insert(i);
  }
  return blocks;
}

void check_window(const config::Options<RotaryOptions>& options, const WindowOptions& windows,
                  Diagnostics& diagnostics) {
  if (!windows.limits_blocks() || options->sliding_window) return;
  diagnostics.add(options.where(&RotaryOptions::sliding_window),
                  "model.sliding_window is not set, but blocks are limited to it", "set it, such as 4096");
}

void describe_windows_of_blocks(config::OptionTable<WindowOptions> table, const std::string& families) {
  table.add("use_sliding_window", &WindowOptions::use_sliding_window)
      .doc("whether sliding_window is in use; not set: only in a family that always uses it");
  table.add("max_window_layers", &WindowOptions::max_window_layers)
      .min(0)
      .doc(families + ": the first block that sliding_window limits, where layer_types is empty");
  describe_layer_types(table, families + ": ");
}

void describe_layer_types(config::OptionTable<WindowOptions> table, const std::string& about) {
  table.add("layer_types", &WindowOptions::layer_types)
      .doc(about + R"("sliding_attention" or "full_attention" for each block)");
}

bool check_kinds_of_blocks(const std::vector<std::string>& layer_types, const std::string& at, std::int64_t layers,
                           Diagnostics& diagnostics) {
  if (layer_types.empty()) return true;
  if (static_cast<std::int64_t>(layer_types.size()) != layers) {
    diagnostics.add(at, cat("model.layer_types has ", layer_types.size(), " entries, but model.num_layers is ", layers),
                    "give one for each block, or remove it");
  }
  for (const auto& type : layer_types) {
    if (type == "full_attention" || type == "sliding_attention") continue;
    diagnostics.add(at, cat("model.layer_types has \"", type, "\""),
                    R"(use "full_attention" and "sliding_attention"; there are no others)");
    return false;
  }
  return true;
}

void check_layer_types(const config::Options<WindowOptions>& options, std::int64_t layers, Diagnostics& diagnostics) {
  const auto& o = *options;
  const auto at = options.where(&WindowOptions::layer_types);
  if (!check_kinds_of_blocks(o.layer_types, at, layers, diagnostics)) return;
  const auto& types = o.layer_types;
  const bool slides = std::find(types.begin(), types.end(), "sliding_attention") != types.end();
  if (slides && !o.use_sliding_window.value_or(false)) {
    diagnostics.add(at, "model.layer_types has \"sliding_attention\", but model.use_sliding_window is not true",
                    "set use_sliding_window = true, or \"full_attention\" for each block");
  }
}

void describe_window_files(const RotaryOptions& options, const WindowOptions& windows, bool has_them,
                           layout::FileMap& map) {
  map.left_out.emplace_back("layer_types");
  if (!has_them) map.left_out.emplace_back("max_window_layers");
  if (!has_them || !windows.use_sliding_window) map.left_out.emplace_back("use_sliding_window");
  if (!has_them) return;
  const bool is_used = windows.use_sliding_window.value_or(false) && options.sliding_window;
  const auto without = windows.blocks_without_window(options.num_layers);
  std::string types;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    const bool slides = is_used && !without.contains(i);
    types += cat(types.empty() ? "[" : ", ", slides ? "\"sliding_attention\"" : "\"full_attention\"");
  }
  map.more["layer_types"] = types + "]";
}

}  // namespace capstan::decoder
