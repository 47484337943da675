#include "plugins/commands/plugins/plugins.h"

#include <capstan_catch.h>

#include <algorithm>

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
  const auto text = plugins::list_text(listing.found);
  const auto good = test::fixture("good").string();
  CHECK(text ==
        "kind     name      version  summary             file\n"
        "monitor  good      1.2      a plugin for tests  " +
            good + "\nmonitor  stripped  1.2      a plugin for tests  " + test::fixture("stripped").string() +
            "\n\n1 file cannot be used:\n" + test::fixture("no_entry").string() +
            ": has no entry: it does not export capstan_plugin()\n    fix: add one CAPSTAN_… line, such as "
            "CAPSTAN_MONITOR, to a source file\n");
  CHECK(plugins::list_text({}) == "No plugin was found that can be used.\n");
}

TEST_CASE("a reason that several files have stands once") {
  const auto broken = [](const char* name, const char* problem) {
    return plugin::Found{"model", name, name, problem, nullptr};
  };
  CHECK(plugins::list_text({broken("a", "no libtorch"), broken("b", "cut short"), broken("c", "no libtorch")}) ==
        "No plugin was found that can be used.\n\n3 files cannot be used:\nno libtorch\n    so it is with 2 files\ncut "
        "short\n");
}

TEST_CASE("one plugin is shown with each option") {
  const Listing listing;
  CHECK(plugins::text_of(listing.found, "good") ==
        "good (monitor, 1.2): a plugin for tests\n" + test::fixture("good").string() +
            "\nTable: [monitor.good]\n\n"
            "option  type     default  limits                  meaning\n"
            "size    integer  3        between 1 and 8         how many\n"
            "mode    string   \"fast\"   one of \"fast\", \"exact\"  how well\n");
}

TEST_CASE("an unknown plugin gets the nearest name, a broken one its reason") {
  const Listing listing;
  CHECK(test::error_of([&] { plugins::text_of(listing.found, "goood"); }) ==
        "there is no plugin 'goood', nor such a kind\n    fix: did you mean 'good'?");
  CHECK_THAT(test::error_of([&] { plugins::text_of(listing.found, "no_entry"); }),
             Contains("no_entry.so: has no entry"));
}

TEST_CASE("a kind lists its plugins, in singular and plural, and what is broken of it") {
  Listing listing;
  plugin::Registration tiny;
  tiny.kind = "model";
  tiny.name = "data";  // a plugin that is called like a kind is shown as well
  tiny.version = "1.0";
  tiny.summary = "small";
  tiny.file = "tiny.so";
  listing.found.push_back({"model", "data", "tiny.so", "", &tiny});
  const auto monitors = plugins::text_of(listing.found, "monitor");
  CHECK_THAT(monitors, Contains("monitor  good ") && Contains("monitor  stripped") && !Contains("tiny.so"));
  CHECK(plugins::text_of(listing.found, "monitors") == monitors);
  CHECK_THAT(plugins::text_of(listing.found, "models"), Contains("model  data  1.0") && !Contains("good"));
  CHECK(plugins::text_of(listing.found, "strategies") == "No plugin was found that can be used.\n");
  CHECK(plugins::text_of(listing.found, "data") ==
        "No plugin was found that can be used.\n\ndata (model, 1.0): small\ntiny.so\nTable: [model] plugin = "
        "\"data\"\n\nIt has no options.\n");
  CHECK(test::error_of([&] { plugins::text_of(listing.found, "modle"); }) ==
        "there is no plugin 'modle', nor such a kind\n    fix: did you mean 'model'?");
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
  CHECK(plugins::text_of(found, "tiny") ==
        "tiny (model, 1.0): small\ntiny.so\nTable: [model] plugin = \"tiny\"\nPresets: tiny-1, tiny-2\n\n"
        "It has no options.\n");
}
