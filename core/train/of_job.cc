#include "train/of_job.h"

#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "session/adapter_state.h"
#include "session/changes.h"
#include "session/resume.h"
#include "session/saved_state.h"
#include "setup/precision.h"

namespace capstan::train {
namespace {

std::uint64_t seed_of(const session::Job& job) { return static_cast<std::uint64_t>(job.config.run->seed); }

inference::Forward forward_of(session::Session& session) {
  return {*session.runner, *session.communicator, *session.world_host, session.device};
}

inference::GeneratorSetting generator_setting(const session::Job& job) {
  const auto& train = *job.config.train;
  const auto& topology = job.topology;
  return {*job.samples.tokenizer.object,
          {train.temperature, train.top_p, seed_of(job)},
          train.max_new_tokens,
          job.plugins.model_facts.max_positions,
          {train.eval_batch, topology.batch.data_parallel_size, topology.data_coordinate(),
           topology.speaks_for_coordinate()}};
}

inference::FeedSource feed_source(const session::Job& job) {
  const auto& facts = job.plugins.model_facts;
  return {job.samples,
          job.topology.batch,
          job.topology.data_coordinate(),
          {facts.vocab_size, facts.max_positions},
          job.config.train->pad_to_multiple,
          job.plugins.data_options->packing,
          job.plugins.data_options->no_target == "skip"};
}

// What a micro-step of the longest samples has at its peak, beyond what is always there; 0: nobody has asked.
std::int64_t work_bytes(const assembly::Prediction& prediction) {
  std::int64_t bytes = 0;
  for (const auto& part : prediction.footprints) bytes += part.when.starts_with("peak: ") ? part.bytes : 0;
  return bytes;
}

// Layers' collectives are between ranks of other axes than data's.
bool splits_layers(const session::Job& job) {
  const auto& mesh = job.topology.mesh;
  return mesh.size(layout::Axis::ep) > 1 || mesh.size(layout::data_axes) < mesh.world_size();
}

GraphSetting graph_setting(const session::Job& job, const session::Session& session) {
  auto recorder = ops::graph_recorder(session.device);
  if (job.config.train->cuda_graphs == "off" || !recorder) return {};
  if (splits_layers(job)) {
    log::info("micro-steps do not run as CUDA graphs: ranks that share layers communicate in the middle of them");
    return {};
  }
  return {std::move(recorder), work_bytes(job.prediction)};
}

StepSetting step_setting(const session::Job& job, const session::Session& session) {
  const auto& config = job.config;
  MicroStepSetting micro{job.topology.batch.accumulation, seed_of(job), graph_setting(job, session)};
  return {*config.optimizer, setup::loss_scaling_of(*config.train).value(), std::move(micro),
          job.topology.speaks_for_coordinate()};
}

StepParts step_parts(const session::Job& job, session::Session& session) {
  const HookParts hooks{session.device, *session.engine, *session.rule, session.steps, *session.state, *session.groups};
  auto model = loaded_model(session);
  GradientCheck reached(model, *session.world_host, job.topology.mesh);
  return {model, *session.rule, StrategyHooks(hooks, job.samples.plan.steps), std::move(reached)};
}

monitor::RunStarted started_of(const session::Job& job, const session::Session& session) {
  const auto& world = session.communicator->world();
  const auto& batch = job.topology.batch;
  monitor::RunStarted started;
  started.name = job.config.name;
  started.rank = world.rank;
  started.world_size = world.size;
  started.data_parallel_size = static_cast<int>(batch.data_parallel_size);
  started.backend = session.communicator->backend(session.device);
  started.device = job.config.device;
  started.parameters = session.engine->parameters();
  started.trainable_parameters = session.engine->trainable_parameters();
  started.steps = job.samples.plan.steps;
  started.steps_per_epoch = job.samples.plan.steps_per_epoch;
  started.global_batch = batch.global_batch;
  started.micro_batch = batch.micro_batch;
  started.accumulation = batch.accumulation;
  if (!session.device.is_cpu()) started.gpu = static_cast<unsigned char>(session.device.index());
  started.precision = job.config.train->precision;
  started.sequence_length = job.samples.length;
  started.flops_per_token = job.plugins.model.object->flops_per_token(job.samples.length);
  const auto& facts = job.plugins.model_facts;
  started.head_flops_per_token =
      std::min(started.flops_per_token, 6.0 * static_cast<double>(facts.vocab_size * facts.hidden_size));
  for (const auto& table : job.tables()) {
    for (const auto& entry : table.host) started.settings.push_back({table.path, entry.key, entry.value, entry.origin});
    for (const auto& option : table.options)
      started.settings.push_back({table.path, option.spec.key, option.value, option.origin});
  }
  return started;
}

// What the learning rate follows from, besides the step.
std::string schedule_text(const session::Job& job) {
  const auto& options = *job.config.optimizer;
  const nlohmann::ordered_json json{{"steps", job.samples.plan.steps},
                                    {"lr", options.lr},
                                    {"schedule", options.schedule},
                                    {"warmup_steps", options.warmup_steps},
                                    {"warmup_from_zero", options.warmup_from_zero},
                                    {"min_lr", options.min_lr}};
  return json.dump();
}

}  // namespace

inference::Feed feed_of(const session::Job& job) { return inference::Feed(feed_source(job)); }

inference::Generator generator_of(const session::Job& job, session::Session& session) {
  return {generator_setting(job), forward_of(session)};
}

inference::Evaluator evaluator_of(const session::Job& job, session::Session& session, const inference::Feed& feed) {
  return {job.samples, generator_setting(job), forward_of(session), feed};
}

LoadedModel loaded_model(session::Session& session) {
  return {session.device,
          session.units,
          *session.engine,
          *session.runner,
          {session.local_axes, *session.world_device, *session.norm_group, session.divisor_group.get()}};
}

Step step_of(const session::Job& job, session::Session& session) {
  return {step_setting(job, session), step_parts(job, session)};
}

SavedRun saved_run(const session::Job& job, session::Session& session, std::filesystem::path folder) {
  const auto rank = job.topology.rank;
  const bool whole = assembly::settled_save(job.config, job.plugins, *job.model) != "trainable";
  const auto boxes = [&session, rank](session::Saves what) {
    return session::saved_boxes(session, *session.rule, rank, what);
  };
  SavedRun run;
  run.folder = std::move(folder);
  run.options = *job.config.checkpoint;
  run.saves_weights = job.config.run->save_weights;
  for (const auto& footprint : job.prediction.footprints) run.bytes_of_rank += static_cast<double>(footprint.bytes);
  run.plan = job.samples.plan;
  run.rank = rank;
  run.pinned = job.topology.policy.pin_memory;
  run.meta.config = config::to_toml(job.tables());
  run.meta.mesh = job.topology.mesh.arithmetic();
  run.meta.world_size = job.topology.mesh.world_size();
  run.sections = session::change_sections(job);
  run.sections["schedule"] = schedule_text(job);
  if (auto adapters = session::adapters_section(session.units); !adapters.empty())
    run.sections["adapters"] = std::move(adapters);
  run.cursor = [&job](std::int64_t steps_done) { return session::cursor_section(job, steps_done); };
  run.boxes = [=] { return boxes(whole ? session::Saves::all : session::Saves::trainable); };
  run.weights = [=] { return boxes(whole ? session::Saves::weights : session::Saves::trained_weights); };
  run.restore = [&job, &session](checkpoint::Reader& reader) {
    return session::restore_state(session, *session.rule, job, reader);
  };
  return run;
}

LoopParts loop_parts(const session::Job& job, session::Session& session, const std::filesystem::path& folder,
                     const ProcessFacts& process) {
  const auto& train = *job.config.train;
  auto started = started_of(job, session);
  started.folder = folder.string();
  started.output_is_terminal = process.output_is_terminal;
  started.gpu_uuid = process.gpu_uuid;
  started.environment = process.environment;
  started.memory = process.memory;
  started.memory.held = [&engine = *session.engine] { return observe::memory_parts(engine.held()); };
  return {{job.samples.plan,
           *job.config.optimizer,
           feed_source(job),
           step_setting(job, session),
           step_parts(job, session),
           {train.on_nonfinite, train.precision, seed_of(job), folder},
           *session.communicator,
           session.world_host},
          {job.samples, generator_setting(job), forward_of(session), train.eval_every, train.generate_samples,
           train.generate_train_samples, train.generate_each_eval},
          saved_run(job, session, folder),
          {job.plugins, job.samples.tokenizer, train, session.units},
          ReplicaCheck(session, job.topology.mesh, job.config.run->verify_replicas),
          std::move(started),
          job.plugins.monitors};
}

}  // namespace capstan::train
