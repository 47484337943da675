// GPT-2 against transformers, from the same folder: logits, loss and every gradient.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include <fstream>
#include <map>

#include "checkpoint/scratch.h"
#include "parity/python.h"
#include "setup/session.h"

using namespace capstan;

namespace {

constexpr std::int64_t hidden_size = 48;

using Tensors = std::map<std::string, at::Tensor>;

Tensors load(const std::filesystem::path& path) {
  const checkpoint::SafetensorsFile file(path);
  Tensors out;
  for (const auto& [name, info] : file.tensors()) {
    out[name] = at::empty(info.shape, at::TensorOptions(info.dtype));
    file.read(name, layout::Box::whole(info.shape), out[name]);
  }
  return out;
}

/// The reference folder, made once.
const Scratch& folder() {
  static const Scratch scratch;
  static const bool made = [] {
    run_python("gpt2.py", {scratch.path()});
    return true;
  }();
  CHECK(made);
  return scratch;
}

setup::Job prepare(const std::string& precision) {
  const auto config = folder() / ("job-" + precision + ".toml");
  std::ofstream(config) << "[run]\ndevice = \"cpu\"\n"
                           "[model]\nplugin = \"gpt\"\npath = \""
                        << folder().path().string()
                        << "\"\n[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                           "/configs/data/mini_squad_train.json\"\nmax_length = 97\n"
                           "[train]\nmax_steps = 1\nglobal_batch = 1\naccumulation = 1\nprecision = \""
                        << precision << "\"\n";
  static plugin::Host host;
  Diagnostics diagnostics;
  setup::JobRequest request;
  request.file = config.string();
  auto job = setup::prepare(request, host, diagnostics);
  diagnostics.throw_if_any();
  return job;
}

nn::Batch batch_of(const Tensors& reference) {
  nn::Batch batch;
  batch.tokens = reference.at("ids");
  batch.positions = at::arange(batch.tokens.size(1), at::kLong).expand_as(batch.tokens);
  batch.sample_ids = at::arange(batch.tokens.size(0), at::kLong);
  batch.training = true;  // the model has no dropout
  return batch;
}

/// transformers shifts its labels itself; ours are the target of each position.
at::Tensor shifted(const at::Tensor& labels) {
  auto out = at::full_like(labels, -100);
  out.narrow(1, 0, labels.size(1) - 1).copy_(labels.narrow(1, 1, labels.size(1) - 1));
  return out;
}

/// Logits of all positions, [batch, seq, vocab].
at::Tensor logits_of(setup::Session& session, const Tensors& reference) {
  const at::NoGradGuard no_grad;
  auto batch = batch_of(reference);
  std::vector<at::Tensor> positions;
  for (std::int64_t t = 0; t < batch.tokens.size(1); ++t) {
    batch.last = at::full({batch.tokens.size(0)}, t, at::kLong);
    positions.push_back(session.runner->forward(batch).states);
  }
  return at::stack(positions, 1);
}

/// Our records' gradients from transformers': Conv1D turned to [out, in], c_attn cut in three. `largest`: of the
/// whole fused tensor.
struct Expected {
  at::Tensor gradient;
  double largest = 0;
};

Expected expected_gradient(const Tensors& reference, const std::string& record) {
  auto name = record;
  std::int64_t part = -1;
  const std::vector<std::string> parts{".attn.q.", ".attn.k.", ".attn.v."};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto found = name.find(parts[i]);
    if (found == std::string::npos) continue;
    name.replace(found, parts[i].size(), ".attn.c_attn.");
    part = static_cast<std::int64_t>(i);
  }
  auto gradient = reference.at("grad.transformer." + name);
  const auto largest = gradient.abs().max().item<double>();
  const bool is_conv = name.rfind("h.", 0) == 0 && gradient.dim() == 2;
  if (is_conv) gradient = gradient.t();
  if (part >= 0) gradient = gradient.narrow(0, part * hidden_size, hidden_size);
  return {gradient, largest};
}

double distance(const at::Tensor& a, const at::Tensor& b, double largest) {
  REQUIRE(a.sizes() == b.sizes());
  return (a - b).abs().max().item<double>() / largest;
}

double distance(const at::Tensor& a, const at::Tensor& b) { return distance(a, b, b.abs().max().item<double>()); }

void compare(const std::string& precision, const std::string& file, double tolerance) {
  at::set_num_threads(1);
  const auto reference = load(folder() / file);
  const auto job = prepare(precision);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    auto session = setup::materialise(job, communicator);
    CHECK(distance(logits_of(session, reference), reference.at("logits")) <= tolerance);

    auto batch = batch_of(reference);
    batch.labels = shifted(reference.at("labels"));
    const auto targets = batch.labels.ne(-100).sum().item<std::int64_t>();
    CHECK(targets == reference.at("target_tokens").item<std::int64_t>());
    session.engine->begin_micro_step(0);
    const auto loss = session.runner->forward(batch).states;
    CHECK(distance(loss.detach() / targets, reference.at("loss")) <= tolerance);
    session.runner->backward(loss, at::full({}, 1.0 / static_cast<double>(targets), loss.options()));

    std::size_t records = 0;
    for (const auto& stored : session.engine->gradient_boxes()) {
      const auto expected = expected_gradient(reference, stored.record->name);
      INFO(stored.record->name);
      CHECK(stored.box == layout::Box::whole(stored.record->shape));
      REQUIRE(expected.largest > 0);
      CHECK(distance(stored.value.view(stored.box.size), expected.gradient, expected.largest) <= tolerance);
      ++records;
    }
    CHECK(records == 4 + 3 * 16);  // every one: tables, final norm, and 16 in each of the three blocks
  });
}

}  // namespace

TEST_CASE("GPT-2 in float64: transformers' logits, loss and gradients") {
  compare("fp64", "reference-float64.safetensors", 1e-10);
}

TEST_CASE("GPT-2 in float32: transformers' logits, loss and gradients") {
  compare("fp32", "reference-float32.safetensors", 1e-5);
}
