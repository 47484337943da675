#include "train/token_caches.h"

#include <capstan_catch.h>

#include "job/tokenizer_job.h"

namespace token_caches_test {

using namespace capstan;

namespace {

// A split of which the files in a folder are samples.
struct TablesOptions {
  std::string train;
  static void describe(config::OptionTable<TablesOptions>& t) {
    t.add("train", &TablesOptions::train).path().doc("a folder");
  }
};

std::string content_now;  // what no option says

class Tables final : public data::Data {
 public:
  explicit Tables(const config::Options<TablesOptions>&) {}
  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    class Source final : public data::DataSource {
      std::int64_t size() const override { return 8; }
      std::string content() const override { return content_now; }
      data::Sample get(std::int64_t) const override { return {{1, 2, 3}, {true, true, true}, 0, {}, {}}; }
    };
    return request.split == data::Split::train ? std::make_shared<Source>() : nullptr;
  }
  std::int64_t max_length() const override { return 0; }
  bool evaluates() const override { return false; }
};

// The token cache of a run with these options of [data] and further tables.
std::filesystem::path cache_of(const test::Folder& folder, const std::string& data, const std::string& tables = "",
                               const std::string& model_folder = "") {
  plugin::Host host;
  host.add(testing::tiny_model());
  host.add(testing::type<data::Data, Tables, TablesOptions>("data", "tables"));
  host.add(testing::type<tokenizer::Opener, tokenizer_job::Shift, tokenizer_job::ShiftOptions>("tokenizer", "shift"));
  setup::JobRequest request;
  request.file =
      folder.write("a.toml", cat("[model]\nplugin = \"tiny\"\n[data]\nplugin = \"tables\"\ncache = \"tokens\"\n", data,
                                 "[train]\nmax_steps = 2\nglobal_batch = 4\n", tables));
  Diagnostics faults;
  auto job = job::prepare(request, host, faults);
  REQUIRE(job);
  job->samples.model_folder = model_folder;
  const auto splits = train::cached_splits(job->config, job->plugins, job->samples);
  REQUIRE(splits.size() == 1);
  return splits.front().cache.file;
}

}  // namespace

TEST_CASE("token caches depend on the files in a split's folder") {
  const test::Folder folder;
  const auto cache = [&] { return cache_of(folder, "train = \"rows\"\n"); };
  folder.write("rows/a.parquet", "one");
  const auto first = cache();
  CHECK(cache() == first);
  folder.write("rows/a.parquet", "two");
  const auto changed = cache();
  CHECK(changed != first);
  folder.write("rows/b.parquet", "three");
  const auto added = cache();
  CHECK(added != changed);
  content_now = "chat template 7";
  CHECK(cache() != added);
  content_now.clear();
  CHECK(cache() == added);
}

TEST_CASE("token caches depend on a tokenizer plugin's options and files") {
  const test::Folder folder;
  const auto cache = [&](const std::string& options) {
    return cache_of(folder, "", "[tokenizer]\nplugin = \"shift\"\n" + options);
  };
  const auto plain = cache("");
  CHECK(cache("") == plain);
  CHECK(cache("first = 4\n") != plain);
  const auto file = folder.write("words.txt", "a b");
  const auto with_file = cache("vocabulary = \"words.txt\"\n");
  CHECK(with_file != plain);
  folder.write("words.txt", "a b c");
  const auto longer = cache("vocabulary = \"words.txt\"\n");
  CHECK(longer != with_file);
  // It has the same size and time, and is yet another file.
  const auto time = std::filesystem::last_write_time(file);
  folder.write("words.txt", "a b d");
  std::filesystem::last_write_time(file, time);
  CHECK(cache("vocabulary = \"words.txt\"\n") != longer);
  folder.write("words.txt", "a b c");
  CHECK(cache("vocabulary = \"words.txt\"\n") == longer);
}

TEST_CASE(
    "token caches depend on tables and texts of the model's folder, which data sources are told, not on weights") {
  const test::Folder folder;
  const test::Folder model;
  const auto cache = [&] { return cache_of(folder, "", "", model.path().string()); };
  (void)model.write("config.json", "{}");
  const auto first = cache();
  CHECK(first != cache_of(folder, ""));
  (void)model.write("model.safetensors", "weights");
  CHECK(cache() == first);
  (void)model.write("chat_template.jinja", "{{ messages }}");
  const auto with_template = cache();
  CHECK(with_template != first);
  (void)model.write("chat_template.jinja", "{{ message }}");
  CHECK(cache() != with_template);
}

}  // namespace token_caches_test
