#include "job/halves.h"
#include "job/packed_forms.h"
#include "job/start_values.h"

namespace model_folder_test {

using namespace capstan;
using halves::job_with;
using halves::write_folder;

TEST_CASE("a folder in a form of a strategy's own is written, recognised and read") {
  const Scratch scratch;
  const std::string halves = "[strategy.halves]\n";
  write_folder(job_with(""), scratch / "plain", "");
  write_folder(job_with(halves, scratch / "plain"), scratch / "packed", "halves");
  const auto job = job_with(halves, scratch / "packed");
  CHECK(job::forms_of_units(job::pointers(job.model->units)) == std::vector<std::string>{"halves"});
  const auto packed = job::start_values(job), plain = job::start_values(job_with("", scratch / "plain"));
  int coded = 0;
  for (const auto* record : job::records_of(job.model->own)) {
    const auto whole = layout::Box::whole(record->shape);
    auto mine = at::empty(record->shape), expected = at::empty(record->shape);
    packed->fill(*record, whole, mine);
    plain->fill(*record, whole, expected);
    const bool is_coded = !nn::coded_in(*packed, *record, whole).empty();
    coded += is_coded ? 1 : 0;
    INFO(record->name);
    CHECK(at::equal(mine, is_coded ? expected.to(at::kHalf).to(at::kFloat) : expected));
  }
  CHECK(coded == 14);

  const auto fault_of = [&](const std::string& tables) -> std::string {
    try {
      (void)job_with(tables, scratch / "packed");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  // A strategy that would keep them so may be there, and leave them out.
  CHECK_THAT(fault_of(halves + "keep = false\n"),
             Contains("14 tensors are in halves, and nothing in this run keeps them so: ") &&
                 Contains("fix: add [strategy.halves], or take the model that it was quantized from"));
  CHECK_THAT(fault_of(""), Contains("its weights are quantized (halving), which is not supported") &&
                               Contains("or one in a form of docs/model-files.md"));
}

}  // namespace model_folder_test
