#include "reference.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <cmath>
#include <cstddef>
#include <iomanip>
#include <string_view>

namespace fp8 {

using namespace capstan;

namespace {

// Lines of evaluations and checkpoints have no gradient norm; a loss that was not finite is null.
void add_line(std::string_view text, const std::string& where, Losses& losses) {
  const auto line = try_parse_json(text);
  const auto require = [&](bool holds, const char* what) {
    if (!holds) throw Error(what, "strategy.fp8.reference is the metrics.jsonl of a run of Capstan in bf16", where);
  };
  require(line.is_object() && line.contains("step") && line["step"].is_number_integer(),
          "the line is not a JSON object with a step");
  if (!line.contains("loss") || !line.contains("grad_norm")) return;
  const auto& loss = line["loss"];
  constexpr double most = 1e30;  // whose sums are numbers
  require(loss.is_null() || (loss.is_number() && loss.get<double>() >= 0 && loss.get<double>() < most),
          "the step's loss is no number of a run");
  const auto step = line["step"].get<std::int64_t>();
  require(step >= 0, "the step's number is none of a run");
  if (loss.is_null() || line.contains("skipped")) return;
  losses[step] = loss.get<double>();
}

std::string fixed(double value, int digits = 4) { return cat(std::fixed, std::setprecision(digits), value); }

}  // namespace

// A last line without an end is still being written.
Losses losses_of(const Band& band) {
  const auto& file = band.file;
  const auto text = read_file(file);
  const std::string_view all(text);
  Losses losses;
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
  const auto steps = static_cast<std::int64_t>(losses.size());
  if (steps < band.window) {
    throw Error(cat("it has ", steps, steps == 1 ? " step" : " steps", " with a loss, and strategy.fp8.window is ",
                    band.window, ": nothing would ever be compared"),
                cat("set strategy.fp8.window to at most ", steps, ", or name a longer run's"), file);
  }
  return losses;
}

void LossBand::loss_known(std::int64_t step, double loss) {
  const auto reference = reference_.find(step);
  if (reference == reference_.end()) return;
  last_.emplace_back(loss, reference->second);
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
