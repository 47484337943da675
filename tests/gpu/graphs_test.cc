// Micro-steps as CUDA graphs learn what eager ones learn, bit for bit, where the GPU itself is deterministic.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan_catch.h>
#include <capstan_places.h>
#include "comm/connect.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "ops/device_graph.h"
#include "setup/schedule.h"
#include "step/saved_state.h"
#include "step/step.h"
#include "support/folder.h"
#include "support/job.h"
#include "train/checkpoint_manager.h"

namespace graphs_test {

using namespace capstan;
using Tensors = std::map<std::string, at::Tensor>;

namespace {

const char* const bloom =
    "[model]\nplugin = \"bloom\"\nvocab_size = 512\nhidden_size = 128\nnum_layers = 2\nnum_heads = 2\nseq_length = "
    "200\n"
    "dropout = 0.1\n";
const char* const llama =
    "[model]\nplugin = \"llama\"\nvocab_size = 512\nhidden_size = 128\nnum_layers = 2\nnum_heads = 2\nnum_kv_heads = "
    "1\n"
    "ff_dim = 192\nseq_length = 200\n";
const char* const mixtral =
    "[model]\nplugin = \"mixtral\"\nvocab_size = 512\nhidden_size = 128\nnum_layers = 2\nnum_heads = 2\nnum_kv_heads = "
    "1\n"
    "ff_dim = 192\nseq_length = 200\nnum_experts = 4\nrouter_aux_loss = true\n";
const char* const lora =
    "[strategy.lora]\nrank = 8\ndropout = 0.1\ninit = \"random\"\ntargets = [\"linear_qkv\", \"linear_proj\"]\n";

job::Job job_of(const test::Folder& folder, const std::string& model, const std::vector<std::string>& overrides) {
  const auto file = folder.path() / "job.toml";
  std::ofstream(file) << "[run]\nseed = 3\ndevice = \"cuda\"\ndeterministic = true\n"
                      << model
                      << "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                         "/configs/data/mini_squad_train.json\"\ntrain_samples = 70\nmax_length = 200\n"
                         "[train]\nmax_steps = 12\nmicro_batch = 1\naccumulation = 4\npad_to_multiple = 8\n"
                         "[optimizer]\nlr = 1e-2\nwarmup_steps = 3\nschedule = \"cosine\"\nclip = 1.0\n";
  setup::JobRequest request;
  request.file = file.string();
  request.overrides = overrides;
  return testing::job_of(request);
}

/// What steps [begin, end) learnt.
struct Learnt {
  std::vector<double> losses;
  std::vector<double> norms;
  Tensors gradients;  ///< the last step's
  Tensors weights;
  int graphs = 0;       ///< recorded
  std::string refused;  ///< why some micro-steps cannot be graphs
};

struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 12;
  std::filesystem::path from = {};  ///< a checkpoint; empty: none
  std::filesystem::path to = {};
};

Tensors copies(const std::vector<shard::StoredBox>& boxes) {
  Tensors tensors;
  for (const auto& stored : boxes) tensors[stored.record->name] = stored.value.cpu();
  return tensors;
}

void train_steps(const job::Job& job, const Stretch& stretch, Learnt& learnt) {
  const auto alone = comm::connect({});
  std::unique_ptr<checkpoint::Reader> reader;
  if (!stretch.from.empty()) reader = std::make_unique<checkpoint::Reader>(stretch.from);
  auto session = step::materialise(job, *alone, {}, reader.get());
  step::Feed feed(job);
  step::Step step(session);
  if (reader) train::resume_from(*reader, session, step.updates());
  step.hooks().begin(stretch.begin);
  for (auto s = stretch.begin; s < stretch.end; ++s) {
    const auto input = feed.draw(s);
    const auto lr = setup::learning_rate(*job.config.optimizer, s, job.samples.plan.steps);
    auto numbers = step.run(input, input.counts, lr);
    numbers.read();
    learnt.losses.push_back(numbers.loss_sum());
    learnt.norms.push_back(numbers.grad_norm());
  }
  learnt.gradients = copies(session.engine->gradient_boxes());
  learnt.weights = copies(session.engine->stored_boxes());
  if (stretch.to.empty()) return;
  step.hooks().before_save(stretch.end);
  auto meta = train::meta_of(job, stretch.end);
  meta.sections = train::sections_of(session, step.updates(), {}, stretch.end);
  checkpoint::save(stretch.to, *session.world_host, meta, step::saved_boxes(session));
}

Learnt learn(const std::string& model, std::vector<std::string> overrides, const Stretch& stretch = {}) {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);  // what `capstan run` does under run.deterministic
  const test::Folder folder;
  const auto log_file = folder.path() / "log";
  log::configure(log_file.string(), log::Level::warning, 0);
  Learnt learnt;
  train_steps(job_of(folder, model, overrides), stretch, learnt);
  log::configure("", log::Level::warning, 0);
  at::globalContext().setDeterministicAlgorithms(false, false);
  const auto log = read_file(log_file);
  if (const auto at = log.find("do not run as CUDA graphs"); at != std::string::npos) {
    learnt.refused = log.substr(at, log.find('\n', at) - at);
  }
  for (std::size_t at = 0; (at = log.find("run as a CUDA graph", at)) != std::string::npos; ++at) ++learnt.graphs;
  return learnt;
}

void check_same(const Tensors& got, const Tensors& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    CHECK(at::equal(got.at(name), tensor));
  }
}

void check_recorded(const Learnt& learnt, int least) {
  CHECK(learnt.graphs >= least);
  CHECK(learnt.refused == "");
}

void check_same(const Learnt& got, const Learnt& expected) {
  CHECK(got.losses == expected.losses);
  CHECK(got.norms == expected.norms);
  check_same(got.gradients, expected.gradients);
  check_same(got.weights, expected.weights);
}

}  // namespace

TEST_CASE("GPU: a graph is replayed with what its tensors hold then, and a failed recording leaves no trace",
          "[graphs]") {
  const c10::Device gpu(c10::kCUDA, 0);
  const auto recorder = ops::graph_recorder(gpu);
  REQUIRE(recorder);
  const auto x = at::ones({1000, 1000}, at::TensorOptions(gpu)), sum = at::zeros({}, at::TensorOptions(gpu));
  const auto add = [&] { sum.add_((x + 1).mul_(2).sum()); };
  const auto first = recorder->record([&](const auto&) { add(); });
  CHECK(sum.item<float>() == 0);
  first->replay();
  CHECK(sum.item<float>() == 4e6F);
  x.fill_(2);
  first->replay();
  CHECK(sum.item<float>() == 1e7F);
  CHECK_THROWS(recorder->record([&](const auto&) {
    add();
    (void)sum.item<float>();
  }));
  CHECK_THROWS_AS(recorder->record([&](const auto&) { throw std::runtime_error("in the midst"); }), std::runtime_error);
  add();
  CHECK(sum.item<float>() == 1.6e7F);
  const auto second = recorder->record([&](const auto&) { add(); });
  second->replay();
  first->replay();
  CHECK(sum.item<float>() == 2.8e7F);
  const auto room = recorder->make_room();
  CHECK(room.free > 0);
  CHECK(room.spare >= 0);
}

TEST_CASE("GPU: between the pieces of a graph the host does what was given apart, in each replay", "[graphs]") {
  const c10::Device gpu(c10::kCUDA, 0);
  const auto recorder = ops::graph_recorder(gpu);
  const auto x = at::ones({1000}, at::TensorOptions(gpu));
  std::vector<float> seen;
  const auto graph = recorder->record([&](const ops::GraphRecorder::Apart& apart) {
    const auto twice = x * 2;
    apart([] {});
    // Autograd's thread may be the one that gives it, and what was allocated before stays for what comes after.
    std::thread([&] { apart([&seen, twice] { seen.push_back(twice[7].item<float>()); }); }).join();
    apart([&seen] { seen.push_back(-1); });
    x.add_(twice);
    CHECK(seen.empty());
  });
  CHECK(seen.empty());
  graph->replay();
  graph->replay();
  CHECK(seen == std::vector<float>{2, -1, 6, -1});
  CHECK(x[0].item<float>() == 9);
  CHECK_THROWS_AS(recorder->record([&](const ops::GraphRecorder::Apart& apart) {
    apart([] { FAIL("a recording that failed is replayed"); });
    throw std::runtime_error("after a piece");
  }),
                  std::runtime_error);
  x.fill_(1);
  graph->replay();
  CHECK(x[0].item<float>() == 3);
}

TEST_CASE("GPU: losses, norms, gradients and weights are those of eager micro-steps", "[graphs]") {
  const std::string precision = GENERATE("bf16", "fp32", "fp16");
  const std::string accumulation = GENERATE("4", "1", "6");
  std::vector<std::string> overrides{"train.precision=" + precision, "train.accumulation=" + accumulation};
  // One shape: the last micro-step of the first step is replayed already.
  if (accumulation == "6") overrides.emplace_back("train.pad_to_multiple=200");
  auto off = overrides;
  off.push_back("train.cuda_graphs=off");
  INFO(precision << ", accumulation " << accumulation);
  const auto got = learn(bloom, overrides), expected = learn(bloom, off);
  check_recorded(got, accumulation == "4" ? 3 : accumulation == "6" ? 2 : 1);  // 4: several shapes
  CHECK(expected.graphs == 0);
  check_same(got, expected);
}

TEST_CASE("GPU: the same with adapters and their dropout", "[graphs]") {
  const std::string model = std::string(llama) + lora;
  const auto got = learn(model, {"train.precision=bf16"});
  check_recorded(got, 3);
  check_same(got, learn(model, {"train.precision=bf16", "train.cuda_graphs=off"}));
}

TEST_CASE("GPU: the same with experts and their auxiliary loss, where products take groups of any size", "[graphs]") {
  const auto got = learn(mixtral, {"train.precision=bf16"});
  check_recorded(got, 3);
  check_same(got, learn(mixtral, {"train.precision=bf16", "train.cuda_graphs=off"}));
}

// Rows of some 30 labels in micro-batches of 512 to 800 positions: logits of 256.
TEST_CASE("GPU: the same where logits are computed only of positions with labels", "[graphs][labels]") {
  const std::string precision = GENERATE("bf16", "fp32");
  for (const std::string& model : {std::string(bloom), llama + std::string(lora)}) {
    const std::vector<std::string> overrides{"train.precision=" + precision, "train.micro_batch=4",
                                             "train.accumulation=3", "train.pad_to_multiple=64"};
    auto off = overrides;
    off.emplace_back("train.cuda_graphs=off");
    const auto got = learn(model, overrides);
    check_recorded(got, 1);
    check_same(got, learn(model, off));
  }
}

TEST_CASE("GPU: a run that is saved and resumed with graphs ends as one without either", "[graphs]") {
  const test::Folder folder;
  const auto saved = folder.path() / "saved";
  const std::vector<std::string> overrides{"train.precision=bf16"};
  const auto begin = learn(bloom, overrides, {0, 7, {}, saved});
  const auto end = learn(bloom, overrides, {7, 12, saved, {}});
  const auto whole = learn(bloom, {"train.precision=bf16", "train.cuda_graphs=off"});
  check_recorded(begin, 1);
  check_recorded(end, 1);
  CHECK(std::equal(begin.losses.begin(), begin.losses.end(), whole.losses.begin()));
  CHECK(std::equal(end.losses.begin(), end.losses.end(), whole.losses.begin() + 7));
  check_same(end.gradients, whole.gradients);
  check_same(end.weights, whole.weights);
}

namespace {

/// The mean distance of two lists of losses, as a share of the second's mean.
double mean_distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::abs(a[i] - b[i]);
    sum += b[i];
  }
  return difference / sum;
}

}  // namespace

// Four samples at once have logits of 256 positions; one at a time, with at most 200 positions, has logits of all.
TEST_CASE("GPU: losses of 30 steps with logits of only the positions with labels are as near to float32 as with all",
          "[labels][training]") {
  const std::string name = GENERATE("bloom", "llama with adapters");
  const auto losses = [&](const std::string& device, const std::string& precision, int at_once) {
    std::vector<std::string> overrides{"train.max_steps=30",
                                       "train.pad_to_multiple=64",
                                       "run.deterministic=false",
                                       "run.device=" + device,
                                       "train.precision=" + precision,
                                       "train.micro_batch=" + std::to_string(at_once),
                                       "train.accumulation=" + std::to_string(4 / at_once)};
    if (name == "bloom") overrides.emplace_back("model.dropout=0");
    // Threads gain nothing in operations so small, and where others use the CPUs they wait for each other.
    const auto threads = at::get_num_threads();
    at::set_num_threads(1);
    auto learnt = learn(name == "bloom" ? bloom : llama + std::string(lora), overrides, {0, 30});
    at::set_num_threads(threads);
    return learnt.losses;
  };
  const auto exact = losses("cpu", "fp32", 1);
  const auto all = mean_distance(losses("cuda", "bf16", 1), exact),
             some = mean_distance(losses("cuda", "bf16", 4), exact),
             some_in_float32 = mean_distance(losses("cuda", "fp32", 4), exact);
  std::cout << name << ": " << exact.front() << " to " << exact.back() << "; logits of all " << all << ", of some "
            << some << ", in float32 " << some_in_float32 << std::endl;
  if (name == "bloom") CHECK(exact.back() < exact.front());  // adapters learn too little in 30 steps to say so
  CHECK(some < 2 * all + 1e-3);
  // 30 steps enlarge what rounding begins with, in float32 from far less; measured: a tenth.
  CHECK(some_in_float32 < all / 4);
}

// The CPU computes by ATen's operators one after another: no fused pass, no kernel of our own.
TEST_CASE("GPU: losses of 50 steps in bfloat16 are as near to float32 as those of the plain path", "[fused]") {
  const std::string name = GENERATE("bloom", "llama", "mixtral", "llama with adapters");
  const std::map<std::string, std::string> models{
      {"bloom", bloom}, {"llama", llama}, {"mixtral", mixtral}, {"llama with adapters", std::string(llama) + lora}};
  const auto losses = [&](const char* device, const char* precision) {
    std::vector<std::string> overrides{"train.max_steps=50", "train.accumulation=1", "run.deterministic=false",
                                       std::string("run.device=") + device,
                                       std::string("train.precision=") + precision};
    if (name == "bloom") overrides.emplace_back("model.dropout=0");  // with it attention is the plain one everywhere
    return learn(models.at(name), overrides, {0, 50}).losses;
  };
  const auto exact = losses("cpu", "fp32");
  const auto plain = mean_distance(losses("cpu", "bf16"), exact), fused = mean_distance(losses("cuda", "bf16"), exact);
  std::cout << name << ": " << exact.front() << " to " << exact.back() << "; plain path " << plain << ", GPU " << fused
            << std::endl;
  CHECK(exact.back() < exact.front());
  CHECK(fused < 2 * plain + 1e-3);
}

TEST_CASE("GPU: packed rows learn what samples in rows of their own learn, and the same in each run", "[packing]") {
  const std::string name = GENERATE("bloom", "llama", "mixtral", "llama with adapters");
  std::string adapters = lora;
  adapters.erase(adapters.find("dropout = 0.1\n"), std::string("dropout = 0.1\n").size());
  const std::map<std::string, std::string> models{
      {"bloom", bloom}, {"llama", llama}, {"mixtral", mixtral}, {"llama with adapters", llama + adapters}};
  const auto learnt = [&](const char* device, const char* precision, const char* packing) {
    std::vector<std::string> overrides{"train.accumulation=1",
                                       "train.micro_batch=6",
                                       "data.max_length=450",
                                       "model.seq_length=450",
                                       std::string("data.packing=") + packing,
                                       std::string("run.device=") + device,
                                       std::string("train.precision=") + precision};
    if (name == "bloom") overrides.emplace_back("model.dropout=0");  // with it attention is the plain one everywhere
    return learn(models.at(name), overrides);
  };
  const auto exact = learnt("cpu", "fp32", "false").losses;
  const auto packed = learnt("cuda", "bf16", "true");
  CHECK(packed.refused != "");
  const auto apart = mean_distance(learnt("cuda", "bf16", "false").losses, exact);
  std::cout << name << ": " << exact.front() << " to " << exact.back() << "; packed "
            << mean_distance(packed.losses, exact) << ", apart " << apart << std::endl;
  CHECK(mean_distance(packed.losses, exact) < 2 * apart + 1e-3);
  check_same(learnt("cuda", "bf16", "true"), packed);
}

}  // namespace graphs_test
