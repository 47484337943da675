#include <capstan/base/text.h>
#include <capstan/session/sample_lengths.h>
#include "plugin/guard.h"

#include <algorithm>

#include "job/open_tokenizer.h"
#include "predict/settle.h"
#include "setup/collect.h"

namespace capstan::predict {
namespace {

// 0: it is not known.
std::int64_t longest_sample(const job::Plugins& plugins, const setup::Configuration& config, plugin::Host& host,
                            Diagnostics& faults) {
  const auto& data = *plugins.data;
  const auto& shared = plugins.data_parts.shared;  // where data.eval_fraction is set, around the plugin's own
  const auto* measures = dynamic_cast<const session::SampleLengths*>((shared ? shared->made : data).object.get());
  if (measures == nullptr) {
    faults.add(data.where,
               cat(R"(data.max_length is "auto", and ')", data.name, "' does not tell how long its samples are"),
               "give a number");
    return 0;
  }
  if (config.request.may_lack_files && !job::absent_files(config, plugins, host).empty()) return 0;
  const auto tokenizer = job::open_tokenizer(config, plugins, host, faults);
  std::int64_t longest = 0;
  if (!tokenizer || !plugins.model) return longest;
  auto request = job::request_with(*tokenizer, plugins.model_options->path.value_or(""),
                                   {data::Split::train, nullptr, 0, plugins.model_facts.vocab_size});
  const auto add = [&](data::Split split, const std::string& set = {}) {
    request.split = split;
    request.set = set;
    for (const auto& one : measures->lengths(request)) longest = std::max<std::int64_t>(longest, one.tokens);
  };
  const auto add_all = [&] {
    add(data::Split::train);
    add(data::Split::eval);
    for (const auto& set : data.object->evaluation_sets()) add(data::Split::eval, set);
  };
  setup::collect(
      faults, [&] { plugin::guard(data.name, "lengths", add_all); }, data.where);
  return longest;
}

}  // namespace

setup::JobRequest settle_length(const setup::JobRequest& request, plugin::Host& host, Diagnostics& unknown) {
  Diagnostics said;  // once more by those who prepare what is left
  const auto section = setup::read_configuration(request, said, &host).document.section("data");
  const auto* entry = section.find("max_length");
  if (request.purpose == setup::Purpose::generate || !entry || entry->value != config::Value(std::string("auto")))
    return request;
  auto settled = request;
  settled.settled.values.push_back({{"data", "max_length"}, std::int64_t{0}, false, entry->origin});
  const auto open = setup::read_configuration(settled, said, &host);
  const auto plugins = job::load_plugins(open, job::Needs::all, host, said);
  if (!plugins.data) return settled;
  const auto longest = longest_sample(plugins, open, host, unknown);
  if (longest == 0) return settled;
  const auto multiple = open.row_multiple();  // a row has one column less than the sample has tokens
  const auto length = std::min((longest + multiple - 2) / multiple * multiple + 1, plugins.model_facts.max_positions);
  settled.settled.values.back().value = length;
  settled.settled.note += cat("max_length auto: ", length, ", the longest sample has ", thousands(longest), " tokens",
                              length < longest ? ", and the model no more positions" : "", "\n");
  return settled;
}

}  // namespace capstan::predict
