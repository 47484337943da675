// tools/bench/sharding.py drives the real program; on CPU ranks and a tiny model here.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "program.h"
#include "results.h"

using namespace end_to_end;
using capstan::cat;
using Catch::Matchers::Contains;

namespace {

struct Ended {
  int code = 0;
  std::string text;  // standard output and error
};

// The harness with a model of a few thousand parameters.
Ended bench(const Workspace& work, const std::string& arguments) {
  const auto command =
      cat("cd '", work.folder().string(), "' && OMP_NUM_THREADS=1 python3 '",
          (source_dir() / "tools" / "bench" / "sharding.py").string(), "' --capstan '",
          (binary_dir() / "bin" / "capstan").string(), "' --device cpu --precision fp32 --vocab 300 --hidden 12",
          " --layers 2 --heads 3 --seq 9 --micro-batch 2 --accumulation 3 --steps 3 --warmup 1 ", arguments, " 2>&1");
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  std::array<char, 4096> block{};
  while (const auto read = std::fread(block.data(), 1, block.size(), pipe)) ended.text.append(block.data(), read);
  ended.code = WEXITSTATUS(::pclose(pipe));
  return ended;
}

std::vector<Json> lines(const std::string& text) {
  std::vector<Json> out;
  for (const auto& line : capstan::split(text, '\n')) {
    if (!line.empty()) out.push_back(Json::parse(line));
  }
  return out;
}

}  // namespace

TEST_CASE("the sharding benchmark measures each case with the real program and keeps a record") {
  const Workspace work;
  const auto ended = bench(work, "--gpus 2 --record kept.json none fsdp-full_shard:optimizer.lr=0.01");
  INFO(ended.text);
  REQUIRE(ended.code == 0);
  const auto results = lines(ended.text);
  REQUIRE(results.size() == 2);
  CHECK(results[0].at("case") == "none");
  CHECK(results[1].at("case") == "fsdp-full_shard:optimizer.lr=0.01");
  for (const auto& result : results) {
    CHECK(result.at("gpus") == 2);
    const double step_s = result.at("step_s");
    CHECK(step_s > 0);
    // 2 samples x 9 positions x 3 micro-steps a rank; step_s is rounded to 10 us.
    CHECK(result.at("tokens_per_s_per_gpu").get<double>() * step_s == Approx(54).epsilon(0.02));
    CHECK(result.at("host_gib") > 0.01);
    CHECK(result.at("peak_gib").is_null());  // no GPU
    // wte 300 x 12, wpe 9 x 12, two blocks of 12 h^2 + 13 h, ln_f.
    CHECK(result.at("parameters") == 300 * 12 + 9 * 12 + 2 * (12 * 144 + 13 * 12) + 24);
  }
  // fp32, nothing cut: 4 bytes of parameters, 4 of gradients, 8 of moments each. With options in play nothing is said.
  CHECK(results[0].at("states_gib").get<double>() * 1073741824.0 == Approx(16 * 7500).epsilon(1e-3));
  CHECK_FALSE(results[1].contains("states_gib"));
  // An option behind the colon reaches the run: the learning rate tears the loss away from the other case's.
  CHECK(results[0].at("last_loss") != results[1].at("last_loss"));

  const auto record = read_json(work.folder() / "kept.json");
  CHECK(record.at("results") == Json(results));
  CHECK(record.at("model").at("ff") == 48);
  CHECK(record.at("training").at("accumulation") == 3);
  CHECK(record.at("hardware").at("cores") > 0);
  CHECK_THAT(record.at("capstan").get<std::string>(), Contains("capstan "));
  CHECK(record.at("date").get<std::string>().size() == 10);
}

TEST_CASE("a case of the sharding benchmark that fails says why and does not end the others") {
  const Workspace work;
  const auto ended = bench(work, "none:train.max_stepz=1 none deepspeed-3");
  CHECK(ended.code == 1);
  const auto results = lines(ended.text);
  REQUIRE(results.size() == 3);
  CHECK_THAT(results[0].at("error").get<std::string>(), Contains("exit code 2"));
  CHECK_THAT(results[0].at("error").get<std::string>(), Contains("max_steps"));
  CHECK(results[1].at("step_s") > 0);
  CHECK(results[2].at("error") == "--deepspeed names no script");
}

TEST_CASE("the sharding benchmark refuses cases that it does not have") {
  const Workspace work;
  const auto ended = bench(work, "zero-4");
  CHECK(ended.code == 2);
  CHECK_THAT(ended.text, Contains("there is no case zero-4; --list prints them"));
}
