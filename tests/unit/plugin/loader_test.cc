#include "plugin/loader.h"
#include "plugin/engine.h"

#include <capstan_catch.h>

#include "fixtures/common.h"
#include "plugin/fixtures.h"

namespace loader_test {

using namespace capstan;
using namespace capstan::plugin;
using test::load_error;

TEST_CASE("a good plugin loads and makes objects from its options") {
  for (const char* name : {"good", "stripped"}) {
    const auto registration = load_plugin_file(test::fixture(name), "monitor");
    CHECK(registration.kind == "monitor");
    CHECK(registration.name == name);
    CHECK(registration.version == "1.2");
    CHECK(registration.summary == "a plugin for tests");
    CHECK(registration.file == test::fixture(name).string());
    REQUIRE(registration.schema.size() == 2);
    CHECK(registration.schema[0].key == "size");
    config::Section section{
        "monitor.good", {}, {{"size", std::int64_t{5}, {config::Origin::Layer::command_line, "", 0}}}};
    Diagnostics diagnostics;
    const auto made = registration.make(section, diagnostics);
    CHECK(diagnostics.empty());
    CHECK(std::static_pointer_cast<fixture::Interface>(made)->answer() == 5);
  }
}

TEST_CASE("a bad option of a plugin is a diagnostic, not an exception") {
  const auto registration = load_plugin_file(test::fixture("good"), "monitor");
  const config::Origin origin{config::Origin::Layer::file, "a.toml", 7};
  config::Section section{"monitor.good", origin, {{"size", std::int64_t{9}, origin}, {"mdoe", true, origin}}};
  Diagnostics diagnostics;
  registration.make(section, diagnostics);
  REQUIRE(diagnostics.size() == 2);
  CHECK(diagnostics.list()[0].text() == "a.toml:7: unknown option monitor.good.mdoe\n    fix: did you mean 'mode'?");
  CHECK(diagnostics.list()[1].text() == "a.toml:7: monitor.good.size is 9, but must be between 1 and 8");

  Diagnostics of_type;
  config::Section wrong{"monitor.good", origin, {{"size", std::string("big"), origin}, {"mode", true, origin}}};
  registration.make(wrong, of_type);
  REQUIRE(of_type.size() == 2);
  CHECK(of_type.list()[0].text() ==
        "a.toml:7: monitor.good.size is \"big\" (a string), but must be an integer\n    fix: for example size = 3");
  CHECK(of_type.list()[1].text() ==
        "a.toml:7: monitor.good.mode is true (a boolean), but must be a string\n    fix: write \"true\"");
}

TEST_CASE("each broken plugin is refused with a message that names its file") {
  (void)open_engine();  // before a plugin brings another LibTorch
  struct Case {
    const char* fixture;
    const char* message;
  };
  const auto item = GENERATE(values<Case>({
      {"wrong_tag", "was built for another Capstan and cannot be loaded"},
      {"wrong_sdk", "was built for another Capstan and cannot be loaded"},
      {"wrong_compiler", "was built for another Capstan and cannot be loaded"},
      {"no_note", "is no Capstan plugin: it has no ABI note (.note.capstan)"},
      {"no_entry", "has no entry: it does not export capstan_plugin()"},
      {"no_descriptor", "capstan_plugin() returns no descriptor"},
      {"old_descriptor", "has a descriptor of 16 bytes; this Capstan's has 48"},
      {"empty_field", "has a descriptor with an empty field"},
      {"other_stem", "calls itself 'wrong_name'; a plugin's name is that of its file"},
      {"throwing_register", "failed to register: the licence server is asleep"},
      {"registers_nothing", "registers nothing"},
      {"two_types", "registers more than one type as monitor plugin 'two_types'"},
      {"host_option", "declares the option 'enabled', which the host reads itself in such a table"},
      {"missing_library", "needs the shared library libfixture_gone.so, which is not found"},
      {"missing_symbol", "needs fixture_helper::help(int), which no loaded library has"},
      {"second_torch", "brings a second LibTorch into the process: "},
  }));
  INFO(item.fixture);
  CHECK_THAT(load_error(item.fixture), Contains(test::fixture(item.fixture).string() + ": " + item.message));
}

TEST_CASE("the second LibTorch is named with both files, and later plugins are not blamed for it") {
  (void)open_engine();
  load_error("second_torch");
  const auto files = doubled_torch_files();
  REQUIRE(files.size() == 2);
  CHECK_THAT(files[0] + files[1], Contains("libtorch_cpu.so") && Contains("libtorch_cpu-second.so"));
  CHECK(load_error("good").empty());
}

TEST_CASE("a plugin of another kind is refused with both kinds") {
  const auto message = test::error_of([] { load_plugin_file(test::fixture("good"), "strategy"); });
  CHECK_THAT(message, Contains("good.so: is a monitor plugin, and a strategy plugin is needed here"));
  CHECK_THAT(message, Contains("monitor/good.so"));
}

TEST_CASE("what throws while a plugin makes its object is told with plugin and phase") {
  const auto registration = load_plugin_file(test::fixture("throwing_make"), "monitor");
  Diagnostics diagnostics;
  CHECK(test::error_of([&] { registration.make({}, diagnostics); }) ==
        "no such thing\n    while plugin 'throwing_make' (monitor) was in phase construction");
  config::Section section{"", {}, {{"mode", std::string("exact"), {config::Origin::Layer::command_line, "", 0}}}};
  CHECK_THROWS_AS(registration.make(section, diagnostics), std::logic_error);
}

}  // namespace loader_test
