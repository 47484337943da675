#include "resume/adapters.h"

#include <capstan/base/json.h>

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "job/assemble.h"
#include "job/sections.h"
#include "support/folder.h"
#include "support/job.h"

namespace adapters_test {

using namespace capstan;

namespace {

job::Job job_of(const test::Folder& folder, const std::string& tables) {
  setup::JobRequest request;
  request.file = folder.write(
      "a.toml",
      "[run]\ndevice = \"cpu\"\n[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 1\nseq_length = 24\n"
      "hidden_size = 16\nnum_heads = 2\nff_dim = 24\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n"
      "[train]\nmax_steps = 1\nglobal_batch = 1\n" +
          tables);
  return testing::job_of(request);
}

std::string lora(const std::string& options) { return "[strategy.lora]\n" + options; }

// A checkpoint of the job's adapters, as a run saves it; without their section, as older ones were.
void save(const job::Job& job, const std::filesystem::path& to, bool with_section = true) {
  const auto units = job::pointers(job.model->units);
  checkpoint::Meta meta;
  if (with_section) meta.sections["adapters"] = job::adapters_section(units);
  std::vector<checkpoint::TensorBox> boxes;
  for (const auto* adapter : job::adapters_of(units)) {
    for (const auto* weight : {&adapter->down, &adapter->up}) {
      for (const auto& record : (*weight)->records()) {
        boxes.push_back(
            {"model/" + record.name, record.shape, layout::Box::whole(record.shape), at::zeros(record.shape)});
      }
    }
  }
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    checkpoint::save(to, *communicator.group("all", {0}, c10::Device(c10::kCPU)), meta, boxes);
  });
}

struct Judged {
  std::set<std::string> of_other_rank;
  std::vector<Diagnostic> faults;
};

Judged judge(const job::Job& job, const std::filesystem::path& saved) {
  const checkpoint::Reader reader(saved);
  Diagnostics faults;
  auto names = resume::check_adapters(reader, job::pointers(job.model->units), faults);
  return {std::move(names), faults.list()};
}

}  // namespace

TEST_CASE("the section has each adapter's scale by its module, and is empty without adapters") {
  const test::Folder folder;
  CHECK(job::adapters_section(job::pointers(job_of(folder, "").model->units)).empty());
  const auto job = job_of(folder, lora("rank = 2\nalpha = 6.0\nrank_stabilised = true\n"));
  const auto units = job::pointers(job.model->units);
  const auto adapters = job::adapters_of(units);
  REQUIRE(adapters.size() > 1);
  const auto section = Json::parse(job::adapters_section(units));
  CHECK(section.size() == adapters.size());
  CHECK(section.at(adapters.back()->module) == Json{{"alpha", 6.0}, {"rank_stabilised", true}});
}

TEST_CASE("adapters of another scale are one fault, whose fix is the saved one's; older checkpoints say none") {
  const test::Folder folder;
  const auto saved = job_of(folder, lora("rank = 2\nalpha = 6.0\n"));
  const auto other = job_of(folder, lora("rank = 2\nalpha = 8.0\n"));
  save(saved, folder / "new");
  CHECK(judge(saved, folder / "new").faults.empty());
  const auto judged = judge(other, folder / "new");
  REQUIRE(judged.faults.size() == 1);
  CHECK(judged.of_other_rank.empty());
  CHECK(judged.faults[0].where == (folder / "new").string());
  CHECK_THAT(judged.faults[0].fix, Contains("set strategy.lora.alpha = 6.0,") && !Contains("rank_stabilised"));
  save(saved, folder / "old", /*with_section=*/false);
  CHECK(judge(other, folder / "old").faults.empty());
}

TEST_CASE("adapters of another rank are one fault, and all their records are named") {
  const test::Folder folder;
  save(job_of(folder, lora("rank = 2\n")), folder / "saved");
  const auto job = job_of(folder, lora("rank = 4\n"));
  const auto judged = judge(job, folder / "saved");
  REQUIRE(judged.faults.size() == 1);
  CHECK_THAT(judged.faults[0].fix, Contains("set strategy.lora.rank = 2,"));
  std::set<std::string> expected;
  for (const auto* adapter : job::adapters_of(job::pointers(job.model->units))) {
    for (const auto* weight : {&adapter->down, &adapter->up}) {
      for (const auto& record : (*weight)->records()) expected.insert(record.name);
    }
  }
  CHECK(judged.of_other_rank == expected);
}

}  // namespace adapters_test
