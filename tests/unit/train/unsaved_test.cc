#include "train/unsaved.h"

#include <capstan_catch.h>

namespace unsaved_test {

using namespace capstan;
using Layer = config::Origin::Layer;

namespace {

config::Entry in_file(const std::string& key, config::Value value) {
  return {key, std::move(value), {Layer::file, "a.toml", 3}};
}

config::Entry in_command(const std::string& key, config::Value value) {
  return {key, std::move(value), {Layer::command_line, {}, 0}};
}

std::string warning(std::vector<config::Entry> entries) {
  Diagnostics faults;
  const config::Options<setup::CheckpointOptions> options({"checkpoint", {}, std::move(entries)}, faults);
  faults.throw_if_any();
  return train::unsaved_warning(options);
}

const config::Value five = std::int64_t{5};

}  // namespace

TEST_CASE("options that only count for a run that saves are named with the place of the first") {
  CHECK_THAT(warning({in_file("keep", five)}), Contains("a.toml:3: checkpoint.keep is set, but this run saves no"));
  CHECK_THAT(warning({in_file("keep", five), in_command("asynchronous", false)}),
             Contains("checkpoint.keep, checkpoint.asynchronous are set") && Contains("checkpoint.every_minutes"));
  CHECK_THAT(warning({in_command("resume", std::string("auto")), in_file("on_interrupt", false)}),
             Contains("command line: checkpoint.resume is set, but this run saves no checkpoints: add"));
  // The command that a run prints which somebody has interrupted.
  CHECK(warning({in_command("resume", std::string("auto"))}).empty());
}

TEST_CASE("nothing is said of a run that saves, nor where saving was switched off by hand") {
  CHECK(warning({}).empty());
  CHECK(warning({in_file("keep", five), in_file("every_steps", std::int64_t{1})}).empty());
  CHECK(warning({in_file("keep", five), in_command("every_steps", std::int64_t{0})}).empty());
  CHECK_FALSE(warning({in_file("keep", five), in_file("every_steps", std::int64_t{0})}).empty());
}

TEST_CASE("an option that is set to its default, and a place to begin from, say nothing of saving") {
  CHECK(warning({in_file("keep", std::int64_t{3})}).empty());
  CHECK(warning({in_file("resume", std::string("runs/a"))}).empty());
}

}  // namespace unsaved_test
