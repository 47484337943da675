#include "train/exports.h"

#include "checkpoint/checkpoint.h"
#include "job/halves.h"

namespace exports_test {

using namespace capstan;
using halves::job_with;
using halves::write_folder;

namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("a strategy's exporter writes a run's folder, or says why not") {
  const Scratch scratch;
  write_folder(job_with(""), scratch / "plain", "");
  const auto job = job_with("[strategy.halves]\n", scratch / "plain");
  CHECK(job::export_options(job.plugins.strategies) == "--to csv");
  const auto csv = job::exports_of(job.plugins.strategies).front();
  nn::InitSource values(7);
  const auto to = scratch / "there";
  CHECK(train::write_export(csv, job.plugins, values, to) == cat("table for csv: ", to.string(), " (a line)"));
  CHECK(read_file(to / "a.csv") ==
        cat(job.plugins.model->object->file_map().tensors.size(), ",", (scratch / "plain").string()));
  CHECK_FALSE(fs::exists(scratch / "there.tmp"));

  // At its end the run writes that, and its model's folder, since all records have a place there.
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    std::vector<checkpoint::TensorBox> boxes;
    const auto units = job::pointers(job.model->units);
    for (const auto* record : job::records_of(units)) {
      const auto whole = layout::Box::whole(record->shape);
      boxes.push_back({"model/" + record->name, record->shape, whole, at::zeros(record->shape)});
    }
    checkpoint::save(scratch / "weights", *communicator.group("weights", {0}, at::kCPU), {}, boxes);
    const auto lines = train::write_final_model({job.plugins, job.samples.tokenizer, *job.config.train, units},
                                                scratch / "weights", scratch.path(), communicator);
    CHECK_THAT(lines, Contains("table for csv: ") && Contains("(a line)\nmodel for transformers: "));
  });
  CHECK(fs::exists(scratch / "table/a.csv"));
  CHECK(fs::exists(scratch / "model/model.safetensors"));
}

}  // namespace exports_test
