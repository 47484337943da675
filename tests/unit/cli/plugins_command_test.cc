#include <capstan_catch.h>

#include <algorithm>

#include "cli/plugins_command.h"
#include "fixtures/common.h"
#include "plugin/fixtures.h"

using namespace capstan;
using plugin::Found;

namespace {

// Two good plugins and a broken one, as discover() lists them.
struct Listing {
  plugin::Host host{{test::fixture_folder()}};
  std::vector<Found> found;
  Listing() {
    for (auto& one : host.discover()) {
      const bool wanted = one.file == test::fixture("stripped") || one.file == test::fixture("good") ||
                          one.file == test::fixture("no_entry");
      if (wanted) found.push_back(std::move(one));
    }
    // Out of order, as folders may be.
    std::reverse(found.begin(), found.end());
  }
};

}  // namespace

TEST_CASE("the list of plugins is sorted, and broken files stand below with their reason") {
  const Listing listing;
  const auto text = cli::plugins_text(listing.found);
  const auto good = test::fixture("good").string();
  CHECK(text ==
        "kind     name      version  summary             file\n"
        "monitor  good      1.2      a plugin for tests  " +
            good + "\nmonitor  stripped  1.2      a plugin for tests  " + test::fixture("stripped").string() +
            "\n\n1 file cannot be used:\n" + test::fixture("no_entry").string() +
            ": has no entry: it does not export capstan_plugin()\n    fix: add one CAPSTAN_… line, such as "
            "CAPSTAN_MONITOR, to a source file\n");
  CHECK(cli::plugins_text({}) == "No plugin was found that can be used.\n");
}

TEST_CASE("one plugin is shown with each option") {
  const Listing listing;
  CHECK(cli::plugin_text(listing.found, "good") ==
        "good (monitor, 1.2): a plugin for tests\n" + test::fixture("good").string() +
            "\nTable: [monitor.good]\n\n"
            "option  type     default  limits                  meaning\n"
            "size    integer  3        between 1 and 8         how many\n"
            "mode    string   \"fast\"   one of \"fast\", \"exact\"  how well\n");
}

TEST_CASE("an unknown plugin gets the nearest name, a broken one its reason") {
  const Listing listing;
  CHECK(test::error_of([&] { cli::plugin_text(listing.found, "goood"); }) ==
        "there is no plugin 'goood'\n    fix: did you mean 'good'?");
  CHECK_THAT(test::error_of([&] { cli::plugin_text(listing.found, "no_entry"); }),
             Contains("no_entry.so: has no entry"));
}

TEST_CASE("a model's presets are listed by name") {
  plugin::Registration tiny;
  tiny.kind = "model";
  tiny.name = "tiny";
  tiny.version = "1.0";
  tiny.summary = "small";
  tiny.file = "tiny.so";
  tiny.presets = {{"tiny-2", {}}, {"tiny-1", {}}};
  const std::vector<Found> found{{"model", "tiny", "tiny.so", "", &tiny}};
  CHECK(cli::plugin_text(found, "tiny") ==
        "tiny (model, 1.0): small\ntiny.so\nTable: [model] plugin = \"tiny\"\nPresets: tiny-1, tiny-2\n\n"
        "It has no options.\n");
}
