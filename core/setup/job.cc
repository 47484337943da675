#include "setup/job.h"

#include <capstan/base/host_memory.h>
#include <capstan/base/text.h>
#include <capstan/plugin/guard.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "config/paths.h"
#include "config/plugin_table.h"
#include "data/fit.h"
#include "setup/assemble.h"
#include "setup/collect.h"
#include "setup/host_memory.h"
#include "setup/model_family.h"
#include "setup/model_file.h"
#include "setup/open_tokenizer.h"
#include "setup/precision.h"
#include "setup/resume.h"
#include "setup/seats.h"
#include "setup/start_values.h"

namespace capstan::setup {
namespace {

// Takes the options of `schema` out of a section: those are the host's, the rest is the plugin's.
config::Section take(config::Section& section, const config::Schema& schema) {
  config::Section taken{section.path, section.origin, {}};
  std::vector<config::Entry> rest;
  for (auto& entry : section.entries) {
    bool is_host = false;
    for (const auto& spec : schema) is_host = is_host || spec.key == entry.key;
    (is_host ? taken.entries : rest).push_back(std::move(entry));
  }
  section.entries = std::move(rest);
  return taken;
}

// What the host itself reads from the tables of this kind of plugin.
std::vector<std::string> host_keys(const std::string& kind) {
  std::vector<std::string> keys;
  const auto add = [&](const config::Schema& schema) {
    for (const auto& spec : schema) keys.push_back(spec.key);
  };
  if (kind == "model") add(config::Options<ModelOptions>::schema());
  if (kind == "data") add(config::Options<DataOptions>::schema());
  add(config::host_options(kind));
  return keys;
}

// Loads the plugin that a table names and makes its object from the table.
template <class Interface>
Made<Interface> make(const std::string& kind, const config::PluginTable& table, config::Section section,
                     const ModelStart& start, plugin::Host& host, Diagnostics& diagnostics) {
  Made<Interface> made;
  made.name = table.name;
  made.where = table.where;
  made.table = table.section.path;
  made.host = table.host;
  collect(
      diagnostics,
      [&] {
        const auto& registration = host.load(kind, table.name, table.path);
        made.file = registration.file;
        if (start.folder) check_family(section, *start.folder, registration, host);
        if (start.folder) section = with_model_file(section, *start.folder, registration.schema);
        if (start.preset) section = with_preset(section, *start.preset, registration.presets, table.name);
        Diagnostics own;
        config::refuse_unknown(section, registration.schema, host_keys(kind), own);
        made.options = config::resolve(registration.schema, section, own);
        const bool usable = own.empty();
        for (const auto& diagnostic : own.list()) diagnostics.add(diagnostic);
        if (!usable) return;
        made.object = std::static_pointer_cast<Interface>(registration.make(section, diagnostics));
      },
      table.where);
  return made;
}

// Where the user set an option of a plugin, else what names the plugin.
template <class Interface>
std::string where_of(const Made<Interface>& made, const std::string& key) {
  for (const auto& option : made.options) {
    if (option.spec.key == key && option.origin.layer != config::Origin::Layer::default_value)
      return option.origin.text();
  }
  return made.where;
}

template <class Interface>
std::vector<Made<Interface>> make_all(const std::string& kind, const config::Document& document, plugin::Host& host,
                                      Diagnostics& diagnostics) {
  std::vector<Made<Interface>> all;
  for (const auto& section : document.children(kind)) {
    const auto table = config::keyed_plugin(section, diagnostics);
    if (table.enabled) all.push_back(make<Interface>(kind, table, table.section, {}, host, diagnostics));
  }
  return all;
}

void read_host_tables(Job& job, const config::Document& document, Diagnostics& diagnostics) {
  job.run = config::Options<RunOptions>(document.section("run"), diagnostics);
  job.train = config::Options<TrainOptions>(document.section("train"), diagnostics);
  job.optimizer = config::Options<OptimizerOptions>(document.section("optimizer"), diagnostics);
  job.checkpoint = config::Options<CheckpointOptions>(document.section("checkpoint"), diagnostics);
  job.comm = config::Options<CommOptions>(document.section("comm"), diagnostics);
  job.preflight = config::Options<PreflightOptions>(document.section("preflight"), diagnostics);
  check_run(job.run, diagnostics);
  check_preflight(job.preflight, diagnostics);
  const auto& betas = job.optimizer->betas;
  if (betas.size() != 2 || betas[0] < 0 || betas[0] >= 1 || betas[1] < 0 || betas[1] >= 1) {
    diagnostics.add(job.optimizer.where(&OptimizerOptions::betas), "optimizer.betas is " + config::value_text(betas),
                    "give two numbers in [0, 1), such as [0.9, 0.999]");
  }
  if (job.train->temperature == 0 && job.train->top_p != 1) {
    diagnostics.add(job.train.where(&TrainOptions::top_p), "train.top_p is below 1, but no token is drawn",
                    "set train.temperature, such as 0.7, or train.top_p = 1");
  }
  if (job.purpose == Purpose::train && !job.train->max_steps && !job.train->epochs) {
    diagnostics.add(document.section("train").origin.text(), "neither train.max_steps nor train.epochs is set",
                    "set one of them");
  }
}

// The folder that model.path means: a path, or what the hub's cache has under an id.
std::optional<ModelFolder> find_folder(config::Options<ModelOptions>& options, const HubCache& hub,
                                       Diagnostics& diagnostics) {
  if (!options->path) return {};
  const auto where = options.where(&ModelOptions::path);
  const auto* entry = options.section().find("path");
  const auto* written = entry ? std::get_if<std::string>(&entry->value) : nullptr;
  try {
    const auto folder =
        find_model({written ? *written : *options->path, *options->path, where, "model.path"}, hub).string();
    options.derive(&ModelOptions::path, folder);
    return ModelFolder{folder, where};
  } catch (const Error& error) {
    for (const auto& diagnostic : error.diagnostics()) diagnostics.add(diagnostic);
    return {};
  }
}

// A folder and a preset both say what the model is, and would mix: of two the command line's counts.
void settle_start(config::Section& section, Diagnostics& diagnostics) {
  const auto* path = section.find("path");
  const auto* preset = section.find("preset");
  if (!path || !preset) return;
  if (path->origin.layer == preset->origin.layer) {
    diagnostics.add(preset->origin.text(),
                    cat("model.preset and model.path (", path->origin.text(), ") both say what the model is"),
                    "keep one: path for a folder's weights, preset for its sizes with random ones");
    return;
  }
  const std::string weaker = path->origin.layer < preset->origin.layer ? "path" : "preset";
  std::erase_if(section.entries, [&](const auto& entry) { return entry.key == weaker; });
}

void make_model(Job& job, const config::Document& document, plugin::Host& host, const HubCache& hub,
                Diagnostics& diagnostics) {
  auto model = config::chosen_plugin(document.section("model"), diagnostics);
  settle_start(model.section, diagnostics);
  job.model_options =
      config::Options<ModelOptions>(take(model.section, config::Options<ModelOptions>::schema()), diagnostics);
  auto& options = job.model_options;
  ModelStart start;
  start.folder = find_folder(options, hub, diagnostics);
  if (options->path && !start.folder) return;  // sizes are not known
  if (options->preset) start.preset = {*options->preset, options.where(&ModelOptions::preset)};
  if (!model.name.empty()) job.model = make<nn::Model>("model", model, model.section, start, host, diagnostics);
}

void make_plugins(Job& job, const config::Document& document, plugin::Host& host, Diagnostics& diagnostics) {
  auto data_section = document.section("data");
  job.data_options =
      config::Options<DataOptions>(take(data_section, config::Options<DataOptions>::schema()), diagnostics);
  config::PluginTable data;
  if (job.purpose != Purpose::generate) data = config::chosen_plugin(data_section, diagnostics);
  if (!data.name.empty()) job.data = make<data::Data>("data", data, data.section, {}, host, diagnostics);
  job.strategies = make_all<strategy::Strategy>("strategy", document, host, diagnostics);
  job.monitors = make_all<monitor::Monitor>("monitor", document, host, diagnostics);
}

void check_strategies(Job& job, Diagnostics& diagnostics) {
  if (!diagnostics.empty()) return;
  const auto facts = job.facts();
  for (auto& made : job.strategies) {
    if (made.object) plugin::guard(made.name, "check", [&] { made.object->check(facts, diagnostics); });
  }
}

void place_on_mesh(Job& job, int world_size, Diagnostics& diagnostics) {
  layout::MeshSpec spec(world_size, job.ranks_per_node);
  std::vector<strategy::ClaimsOf> claims;
  for (auto& made : job.strategies) {
    if (!made.object) continue;
    plugin::guard(made.name, "mesh", [&] { made.object->mesh(spec); });
    claims.push_back({made.name, made.where, {}});
    plugin::guard(made.name, "claim", [&] { made.object->claim(claims.back().claims); });
    plugin::guard(made.name, "shard", [&] { made.object->shard(job.policy); });
  }
  strategy::judge_claims(claims, diagnostics);
  job.mesh = layout::resolve(spec, diagnostics);
  const auto data_ranks = job.mesh.size(layout::data_axes);
  const auto& t = job.train;
  if (job.purpose != Purpose::train) {
    job.batch = {t->eval_batch, 1, t->eval_batch * data_ranks, data_ranks};
    return check_strategies(job, diagnostics);
  }
  job.batch = data::resolve_batch({t->micro_batch, t.where(&TrainOptions::micro_batch)},
                                  {t->accumulation, t.where(&TrainOptions::accumulation)},
                                  {t->global_batch, t.where(&TrainOptions::global_batch)}, data_ranks, diagnostics);
  if (!diagnostics.empty()) return;  // sizes that are wrong would only give follow-up faults
  job.train.derive(&TrainOptions::micro_batch, job.batch.micro_batch);
  job.train.derive(&TrainOptions::accumulation, job.batch.accumulation);
  job.train.derive(&TrainOptions::global_batch, job.batch.global_batch);
  check_strategies(job, diagnostics);
}

void open_data(Job& job, const HubCache& hub, Diagnostics& diagnostics) {
  const bool has_data = job.purpose != Purpose::generate;
  if (has_data && !job.data.object) return;
  const auto before = diagnostics.size();
  if (has_data) {
    collect(
        diagnostics, [&] { plugin::guard(job.data.name, "check", [&] { job.data.object->check(diagnostics); }); },
        job.data.where);
  }
  open_tokenizer(job, hub, diagnostics);
  if (diagnostics.size() != before || !job.model.object) return;
  const data::ModelBounds bounds{job.model_facts.vocab_size, job.model_facts.max_positions};
  std::int64_t asked = 0;
  if (has_data) asked = plugin::guard(job.data.name, "max_length", [&] { return job.data.object->max_length(); });
  data::check_fit(bounds, *job.tokenizer, asked, where_of(job.model, "vocab_size"), where_of(job.data, "max_length"),
                  diagnostics);
  if (diagnostics.size() != before || !has_data) return;
  const auto length = job.sample_length = data::sample_length(bounds, asked);
  collect(diagnostics, [&] {
    plugin::guard(job.data.name, "open", [&] {
      job.train_data = job.data.object->open({data::Split::train, job.tokenizer, length, bounds.vocab_size});
      job.eval_data = job.data.object->open({data::Split::eval, job.tokenizer, length, bounds.vocab_size});
    });
  });
  if (job.purpose != Purpose::train || !job.train_data || (!job.train->max_steps && !job.train->epochs)) return;
  data::PlanRequest request;
  request.samples = plugin::guard(job.data.name, "size", [&] { return job.train_data->size(); });
  request.global_batch = job.batch.global_batch;
  request.epochs = job.train->epochs;
  request.max_steps = job.train->max_steps;
  request.drop_last = job.train->drop_last;
  request.shuffle = job.train->shuffle;
  request.seed = static_cast<std::uint64_t>(job.run->seed);
  request.where_samples = job.data.where;
  request.where_batch = job.train.where(&TrainOptions::global_batch);
  request.where_length = job.train.where(job.train->max_steps ? &TrainOptions::max_steps : &TrainOptions::epochs);
  job.plan = data::make_plan(request, diagnostics);
}

// What [checkpoint] asks for and the run cannot give. A path starts at the folder of the file that names it.
void check_checkpoints(Job& job, Diagnostics& diagnostics) {
  auto& options = job.checkpoint;
  const auto& resume = options->resume;
  for (const auto& option : options.resolved()) {
    if (option.spec.key != "resume" || resume == "none" || resume == "auto") continue;
    options.derive(&CheckpointOptions::resume, config::absolute_path(resume, option.origin));
    break;
  }
  const auto refuse = [&](auto member, const std::string& why, const std::string& fix) {
    if (options.is_set(member))
      diagnostics.add(options.where(member), cat(options.name(member), " has no effect: ", why), fix);
  };
  // A run's own config.toml sets every option, mostly to what it is anyway.
  const CheckpointOptions defaults;
  const char* off = "checkpoint.keep_best is off";
  const char* fix = "remove it, or set checkpoint.keep_best = true";
  if (!options->keep_best && options->metric != defaults.metric) refuse(&CheckpointOptions::metric, off, fix);
  if (!options->keep_best && options->mode != defaults.mode) refuse(&CheckpointOptions::mode, off, fix);
  if (!job.eval_data && job.train_data) {
    if (options->keep_best)
      refuse(&CheckpointOptions::keep_best, "there is no evaluation data", "name an evaluation file in [data]");
    if (options->every_eval)
      refuse(&CheckpointOptions::every_eval, "there is no evaluation data", "name an evaluation file in [data]");
  }
}

// What checkpoints hold: frozen parameters are left out where model.path gives them again.
void settle_saving(Job& job) {
  if (job.checkpoint.is_set(&CheckpointOptions::save) || !job.model_options->path) return;
  const auto units = build_units(job);
  const auto records = records_of(pointers(units));
  const bool freezes = std::any_of(records.begin(), records.end(), [](const auto* r) { return !r->trainable; });
  if (freezes) job.checkpoint.derive(&CheckpointOptions::save, std::string("trainable"));
}

}  // namespace

strategy::Facts Job::facts() const {
  strategy::Facts facts;
  facts.mesh = mesh;
  facts.rank = rank;
  facts.model = model_facts;
  facts.micro_batch = batch.micro_batch;
  facts.accumulation = batch.accumulation;
  facts.sequence_length = sample_length;
  facts.precision = train->precision;
  facts.device = device;
  facts.ranks_per_node = ranks_per_node;
  return facts;
}

data::Sample Job::sample(const data::DataSource& source, std::int64_t index) const {
  return plugin::guard(data.name, cat("get of sample ", index), [&] { return source.get(index); });
}

data::Sample Job::question(const data::DataSource& source, std::int64_t index) const {
  const auto most = model_facts.max_positions - train->max_new_tokens;
  return plugin::guard(data.name, cat("question of sample ", index), [&] { return source.question(index, most); });
}

Job prepare(const JobRequest& request, plugin::Host& host, Diagnostics& diagnostics) {
  const auto document = config::load(request.file, request.overrides, diagnostics);
  Job job;
  job.file = request.file;
  job.rank = request.rank;
  job.ranks_per_node = request.ranks_per_node > 0 ? request.ranks_per_node : request.world_size;
  job.purpose = request.purpose;
  job.weights = request.weights;
  job.activations = request.activations;
  read_host_tables(job, document, diagnostics);
  job.name = job.run->name.value_or(std::filesystem::path(request.file).stem().string());
  job.device = job.run->device == "auto" ? request.device : job.run->device;
  if (request.may_move && job.run->device == "auto" && job.train->precision == "fp16") job.device = "cuda";
  job.gpu = request.gpu;
  job.cache = job.run->cache.value_or(request.cache);
  check_precision(job.train, job.device, diagnostics);
  make_model(job, document, host, request.hub, diagnostics);
  if (request.only_model) {
    auto data = document.section("data");
    job.data_options = config::Options<DataOptions>(take(data, config::Options<DataOptions>::schema()), diagnostics);
    job.strategies = make_all<strategy::Strategy>("strategy", document, host, diagnostics);
    open_tokenizer(job, request.hub, diagnostics);
    return job;
  }
  make_plugins(job, document, host, diagnostics);
  if (job.model.object) {
    collect(
        diagnostics, [&] { plugin::guard(job.model.name, "check", [&] { job.model.object->check(diagnostics); }); },
        job.model.where);
    plugin::guard(job.model.name, "facts", [&] { job.model_facts = job.model.object->facts(); });
  }
  place_on_mesh(job, request.world_size, diagnostics);
  open_data(job, request.hub, diagnostics);
  check_checkpoints(job, diagnostics);
  if (!diagnostics.empty()) return job;
  const auto told = told_host_memory(job);
  const auto host_memory = told ? told : available_host_memory();
  bool fits_together = false;
  collect(diagnostics, [&] {
    settle_saving(job);
    auto prediction = predict(job, optimizer_rule(job)->states());
    job.footprints = std::move(prediction.footprints);
    job.model_changes = std::move(prediction.changes);
    job.activations = prediction.activations;
    job.activations_note = std::move(prediction.activations_note);
    fits_together = true;
  });
  collect(diagnostics, [&] { check_model_files(job, diagnostics); });
  if (!request.any_host_memory) check_host_memory(job, host_memory, diagnostics);
  if (!fits_together) return job;  // what follows puts the units together again
  bool from_start = job.weights.empty();
  collect(
      diagnostics, [&] { from_start = !judge_resume(job, diagnostics) && from_start; },
      job.checkpoint.where(&CheckpointOptions::resume));
  if (from_start) collect(diagnostics, [&] { check_added_files(job); });
  return job;
}

}  // namespace capstan::setup
