// The mean of a score is over the questions that have it, on any number of ranks.
#include <ATen/Parallel.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "generation/generation.h"
#include "support/small_run.h"

namespace scores_test {

using namespace capstan;

namespace {

// Five questions: the third has both scores, the fourth one of them, the others none.
class Asks final : public data::DataSource {
 public:
  explicit Asks(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  data::Sample get(std::int64_t index) const override {
    return {{3, 4, 5}, {false, false, true}, 2, std::to_string(index), {}};
  }
  monitor::Values score(const data::Sample& sample, const std::string& /*text*/) const override {
    if (sample.id == "2") return {{"f1", 30}, {"exact_match", 100}};
    if (sample.id == "3") return {{"f1", 10}};
    return {};
  }

 private:
  std::int64_t size_;
};

std::vector<execution::Evaluation> answers(int world, std::int64_t questions) {
  at::set_num_threads(1);
  const auto file = testing::small_config();
  std::vector<execution::Evaluation> all(static_cast<std::size_t>(world));
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    const auto job = testing::prepare_small(file, {"train.max_new_tokens=1"}, world, rank);
    auto session = step::materialise(job, communicator);
    all[static_cast<std::size_t>(rank)] = generation::library().answers(session, Asks(questions), -1, nullptr);
  });
  return all;
}

}  // namespace

TEST_CASE("questions without a score are in no mean, and a score that no question has is none") {
  for (const int world : {1, 2, 3}) {
    for (const auto& evaluation : answers(world, 5)) {
      CHECK(evaluation.samples == 5);
      CHECK(evaluation.scores == monitor::Values{{"exact_match", 100}, {"f1", 20}});
    }
    for (const auto& evaluation : answers(world, 2)) {
      CHECK(evaluation.samples == 2);
      CHECK(evaluation.scores.empty());
    }
  }
}

}  // namespace scores_test
