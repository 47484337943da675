// Files that are nearly right: each is read, or refused in one message that names it and says what to do.
//
// 10 seconds of the same inputs by default; CAPSTAN_FUZZ_S says how long, CAPSTAN_FUZZ_FIRST which inputs
// (tools/nightly: an hour of others). An input that finds a fault is shortened and written to tests/fixtures/fuzz, from
// where every later run reads it again.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <cstdlib>
#include <filesystem>

#include "base/xxh64.h"
#include "fuzz/judge.h"
#include "fuzz/mutate.h"

namespace fuzz_test {

using namespace fuzz;
using capstan::cat;
namespace fs = std::filesystem;

namespace {

const fs::path kept = CAPSTAN_SOURCE_DIR "/tests/fixtures/fuzz";

double setting(const char* name, double otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return text == nullptr ? otherwise : std::atof(text);
}

// The shortest input with the same kind of fault, in a file of the repository.
std::string keep(const Target& target, const std::string& input, const std::string& what) {
  const auto kind = what.substr(0, what.find(": "));
  const auto least = shrunk(
      input, [&](const std::string& shorter) { return judged_apart(target, shorter).starts_with(kind); }, 300);
  const auto hash = capstan::xxh64(reinterpret_cast<const std::byte*>(least.data()), least.size());
  fs::create_directories(kept);
  const auto file = kept / cat(target.name, "-", hash % 1000000);
  capstan::write_file(file, least);
  return file.string();
}

}  // namespace

TEST_CASE("inputs that once found a fault are read, or refused as they should be", "[replay]") {
  const auto all = targets();
  for (const auto& file : capstan::entries_if_there(kept)) {
    const auto name = file.filename().string();
    const auto target = name.substr(0, name.rfind('-'));
    for (const auto& each : all) {
      if (each.name != target) continue;
      INFO(file.string());
      CHECK(judged_apart(each, capstan::read_file(file)) == "");
    }
  }
}

TEST_CASE("files that are right are read") {
  for (const auto& target : targets()) {
    for (const auto& seed : target.seeds) {
      INFO(target.name << ": " << seed.substr(0, 200));
      CHECK(judged_apart(target, seed) == "");
    }
  }
}

// Whoever copies or prints such a value calls himself for each list in it.
TEST_CASE("values as deep as no stack are read, or refused as they should be") {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const std::string place = "\"here\"";
  int tried = 0;
  for (const auto& target : targets()) {
    for (const auto& seed : target.seeds) {
      const auto json = capstan::try_parse_json(seed);
      if (!json.is_object()) continue;
      for (const auto& [key, value] : json.items()) {
        auto other = json;
        other[key] = "here";
        auto text = other.dump();
        text.replace(text.find(place), place.size(), deep);
        INFO(target.name << ": " << key);
        CHECK(judged_apart(target, text) == "");
        ++tried;
      }
    }
  }
  CHECK(tried > 20);
}

TEST_CASE("files that are nearly right are read, or refused as they should be") {
  const auto all = targets();
  const auto seconds = setting("CAPSTAN_FUZZ_S", 10) / static_cast<double>(all.size());
  const auto first = static_cast<std::uint64_t>(setting("CAPSTAN_FUZZ_FIRST", 1));
  for (const auto& target : all) {
    std::vector<Fault> faults;
    const auto done = fuzz_for(target, first, seconds, faults);
    std::printf("%-16s %8llu inputs, %zu faults\n", target.name.c_str(), static_cast<unsigned long long>(done),
                faults.size());
    CHECK(done > 0);
    const Mutator mutator(target.seeds, target.words);
    for (const auto& fault : faults) {
      FAIL_CHECK(target.name << ", input " << fault.number << ": " << fault.what << "\nkept in "
                             << keep(target, mutator.input(fault.number), fault.what));
    }
  }
}

TEST_CASE("the judge of messages finds what it is there for") {
  CHECK(fault_of_message("/x/a.json: it is not JSON: line 1\n    fix: write it again", "a.json").empty());
  CHECK_FALSE(fault_of_message("it is not JSON\n    fix: write it again", "a.json").empty());
  CHECK_FALSE(fault_of_message("/x/a.json: it is not JSON", "a.json").empty());
  CHECK_FALSE(fault_of_message("/x/a.json: [json.exception.parse_error.101]\n    fix: x", "a.json").empty());
  CHECK_FALSE(fault_of_message("/x/a.json: stod\n    fix: x", "a.json").empty());
  CHECK(fault_of_message("/x/a.json: no JSON at 'stodel'\n    fix: x", "a.json", "stodel").empty());
  CHECK_FALSE(fault_of_message("/x/a.json: \033[31m\n    fix: x", "a.json").empty());
}

TEST_CASE("a crash, an endless loop and a bug are faults; the input that causes one is shortened") {
  Target target{"x", "a", {"abcXdef"}, {"X"}, [](const fs::path& folder) {
                  const auto text = capstan::read_file(folder / "a");
                  if (text.find('X') != std::string::npos) std::abort();
                  if (text.find('Y') != std::string::npos) throw std::logic_error("Y");
                }};
  CHECK(judged_apart(target, "abc").empty());
  CHECK(judged_apart(target, "aXc") == "it ends the process by signal 6");
  CHECK(judged_apart(target, "aYc") == "a bug: Y");
  CHECK(shrunk(
            "some bytes and an X between others",
            [&](const std::string& text) { return !judged_apart(target, text).empty(); }, 200) == "X");
}

}  // namespace fuzz_test
