#include "step/tracing.h"

#include <capstan_catch.h>

#include "step/step.h"
#include "support/small_run.h"

namespace tracing_test {

using namespace capstan;
using monitor::Span;

namespace {

class Recorder final : public monitor::Tracer {
 public:
  explicit Recorder(bool units = true) : units_(units) {}
  void begin(Span kind, std::string_view name) noexcept override { add("+", kind, name); }
  void end(Span kind, std::string_view name) noexcept override { add("-", kind, name); }
  bool units() const override { return units_; }
  std::vector<std::string> seen;

 private:
  void add(const char* sign, Span kind, std::string_view name) {
    seen.push_back(sign + std::to_string(static_cast<int>(kind)) + " " + std::string(name));
  }
  bool units_;
};

std::string span(const char* sign, Span kind, const std::string& name) {
  return sign + std::to_string(static_cast<int>(kind)) + " " + name;
}

// The spans of one step of a small model, and its units' names.
std::vector<std::string> spans_of_step(bool units, std::vector<std::string>& names) {
  const auto recorder = std::make_shared<Recorder>(units);
  const auto file = testing::small_config();
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, {}, 1, 0);
    auto session = step::materialise(job, communicator);
    for (const auto* unit : session.runner->units()) names.push_back(unit->name());
    step::Feed feed(job);
    step::Step step(session);
    step.trace(recorder);
    const auto input = feed.draw(0);
    step.run(input, input.counts, 0.1);
  });
  return recorder->seen;
}

}  // namespace

TEST_CASE("one tracer tells several, and wants units where one of them does") {
  const auto first = std::make_shared<Recorder>(false), second = std::make_shared<Recorder>(true);
  step::Tracers both({first, second});
  both.begin(Span::step, "3");
  both.end(Span::step, "3");
  CHECK(first->seen == std::vector<std::string>{span("+", Span::step, "3"), span("-", Span::step, "3")});
  CHECK(second->seen == first->seen);
  CHECK(both.units());
  CHECK_FALSE(step::Tracers({first, first}).units());
  CHECK_FALSE(step::Tracers({}).units());
}

TEST_CASE("a span ends with its block, by an exception too") {
  Recorder recorder;
  try {
    const step::Traced traced(&recorder, Span::optimizer, "update");
    throw std::logic_error("no luck");
  } catch (const std::logic_error&) {
  }
  CHECK(recorder.seen ==
        std::vector<std::string>{span("+", Span::optimizer, "update"), span("-", Span::optimizer, "update")});
}

TEST_CASE("a step's units are spans, forward in their order and backward in the reverse, if the tracer wants them") {
  std::vector<std::string> names;
  std::vector<std::string> expected{span("+", Span::step, "0")};
  const auto seen = spans_of_step(true, names);
  const auto add = [&](Span kind, const std::string& name) {
    expected.push_back(span("+", kind, name));
    expected.push_back(span("-", kind, name));
  };
  for (const auto& name : names) add(Span::forward, name);
  for (auto name = names.rbegin(); name != names.rend(); ++name) add(Span::backward, *name);
  add(Span::optimizer, "update");
  expected.push_back(span("-", Span::step, "0"));
  CHECK(seen == expected);
  CHECK(spans_of_step(false, names).size() == 4);
}

}  // namespace tracing_test
