// Folders whose experts are in MXFP4: decoded to the bits that transformers decodes, computed to its logits, and
// written as numbers that it reads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/checkpoint/folder_source.h>
#include <capstan_catch.h>

#include <fstream>

#include "hf/door.h"
#include "job/assemble.h"
#include "parity/models.h"
#include "parity/reference.h"
#include "step/session.h"
#include "support/job.h"

namespace mxfp4_test {

using namespace capstan;

namespace {

const std::filesystem::path& folder() {
  static const MadeFolder made("mxfp4.py", {"make"});
  return made.path();
}

// What a run computes with strategies that keep the codes, or without.
at::Tensor logits(const std::string& tables) {
  const auto reference = parity::load(folder() / "reference.safetensors");
  std::ofstream(folder() / "job.toml")
      << "[run]\ndevice = \"cpu\"\n[model]\nplugin = \"gpt_oss\"\npath = \"packed\"\n[data]"
         "\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n[train]\nmax_steps = 1\n"
         "global_batch = 2\nprecision = \"fp32\"\n[strategy.lora]\n"
      << tables;
  at::Tensor out;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    setup::JobRequest request;
    request.file = (folder() / "job.toml").string();
    const auto job = testing::job_of(request);
    auto session = step::materialise(job, communicator);
    out = parity::logits_of(session, reference.at("ids"));
  });
  return out;
}

}  // namespace

TEST_CASE("experts in MXFP4 are decoded as transformers decodes them, and computed to its logits", "[transformers5]") {
  at::set_num_threads(1);
  const auto reference = parity::load(folder() / "reference.safetensors");
  const auto job = parity::prepare("gpt_oss", folder() / "packed", "fp32");
  CHECK_THAT(job.plugins.model->note, Contains("experts are in MXFP4") && Contains("decoded as it is read"));
  const auto map = job.plugins.model->object->file_map();
  const auto decoded = checkpoint::open_folder(folder() / "packed", map);
  int compared = 0;
  for (const auto* record : job::records_of(job.model->own)) {
    const auto expected = reference.find(record->name);
    if (expected == reference.end()) continue;
    const auto out = at::empty(record->shape);
    decoded->fill(*record, layout::Box::whole(record->shape), out);
    const bool is_up = record->shape.size() == 4;
    const auto& place = map.tensors.at(record->name);
    const auto theirs = is_up ? out.permute(place.order).flatten(2) : out.permute(place.order);
    CHECK(at::equal(theirs, expected->second.to(at::kFloat)));
    ++compared;
  }
  CHECK(compared == 4);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = step::materialise(job, communicator);
    const auto ours = parity::logits_of(session, reference.at("ids")), theirs = reference.at("logits");
    CHECK((ours - theirs).abs().max().item<double>() <= 1e-5 * theirs.abs().max().item<double>());
  });
}

TEST_CASE("experts that stay in MXFP4 are computed as those that are decoded, bit by bit", "[transformers5]") {
  at::set_num_threads(1);
  CHECK(at::equal(logits("[strategy.mxfp4]\n"), logits("")));
}

TEST_CASE("a model that was decoded is written as numbers, which transformers reads", "[transformers5]") {
  const auto job = parity::prepare("gpt_oss", folder() / "packed", "bf16");
  const auto source = checkpoint::open_folder(folder() / "packed", job.plugins.model->object->file_map());
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const hf::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                 job::pointers(job.model->units)};
    hf::door().write(model, *source, folder() / "written", {}, communicator);
  });
  run_python("mxfp4.py", {"check", folder().string(), (folder() / "written").string()});
}

}  // namespace mxfp4_test
