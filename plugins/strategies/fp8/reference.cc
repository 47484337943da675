#include "reference.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <cmath>
#include <cstddef>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

namespace fp8 {

using namespace capstan;

namespace {

constexpr auto none = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t most_steps = 100'000'000;

// Lines of evaluations and checkpoints have no gradient norm; a loss that was not finite is null.
void add_line(std::string_view text, const std::string& where, std::vector<double>& losses) {
  const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto require = [&](bool holds, const char* what) {
    if (!holds) throw Error(what, "strategy.fp8.reference is the metrics.jsonl of a run of Capstan in bf16", where);
  };
  require(line.is_object() && line.contains("step") && line["step"].is_number_integer(),
          "the line is no JSON object with a step");
  if (!line.contains("loss") || !line.contains("grad_norm")) return;
  const auto& loss = line["loss"];
  require(loss.is_number() || loss.is_null(), "the step's loss is no number");
  const auto step = line["step"].get<std::int64_t>();
  require(step >= 0 && step <= most_steps, "the step's number is none of a run");
  if (static_cast<std::size_t>(step) >= losses.size()) losses.resize(static_cast<std::size_t>(step) + 1, none);
  losses[static_cast<std::size_t>(step)] = loss.is_null() || line.contains("skipped") ? none : loss.get<double>();
}

std::string fixed(double value, int digits = 4) { return cat(std::fixed, std::setprecision(digits), value); }

}  // namespace

// A last line without an end is still being written.
std::vector<double> losses_of(const std::string& file) {
  const auto text = read_file(file);
  const std::string_view all(text);
  std::vector<double> losses;
  std::size_t begin = 0;
  for (int number = 1;; ++number) {
    const auto end = all.find('\n', begin);
    if (end == std::string_view::npos) break;
    add_line(all.substr(begin, end - begin), cat(file, ":", number), losses);
    begin = end + 1;
  }
  if (losses.empty()) {
    throw Error("the file has no step with a loss", "strategy.fp8.reference is the metrics.jsonl of a run in bf16",
                file);
  }
  return losses;
}

void LossBand::loss_known(std::int64_t step, double loss) {
  const auto place = static_cast<std::size_t>(step);
  if (place >= reference_.size() || std::isnan(reference_[place])) return;
  last_.emplace_back(loss, reference_[place]);
  if (last_.size() < static_cast<std::size_t>(band_.window)) return;
  double mine = 0, theirs = 0;
  for (const auto& [here, there] : last_) mine += here, theirs += there;
  last_.pop_front();
  const auto steps = static_cast<double>(band_.window);
  mine /= steps, theirs /= steps;
  if (mine <= theirs + band_.width * std::abs(theirs)) return;
  throw Error(cat("after step ", step, " the mean loss of ", band_.window, " steps is ", fixed(mine),
                  ", and the reference's is ", fixed(theirs), " there: ", fixed(100 * (mine / theirs - 1), 1),
                  " % above it, and strategy.fp8.band allows ", 100 * band_.width, " % (", band_.file, ")"),
              "take an earlier checkpoint and continue without strategy.fp8, or with backward = \"bf16\", or with more "
              "blocks left out (skip_first, skip_last); if other data or another batch explain it, take another "
              "reference, or set a larger strategy.fp8.band or window");
}

}  // namespace fp8
