#pragma once
#include <capstan/base/export.h>

#include "inference/evaluate.h"
#include "session/session.h"
#include "train/checkpoint_manager.h"
#include "train/loop.h"
#include "train/step.h"

/// What each part of training takes of a job and its session, which both must outlive it.
CAPSTAN_BEGIN_NAMESPACE
namespace train {

inference::Feed feed_of(const session::Job& job);
inference::Generator generator_of(const session::Job& job, session::Session& session);
inference::Evaluator evaluator_of(const session::Job& job, session::Session& session, const inference::Feed& feed);
LoadedModel loaded_model(session::Session& session);
Step step_of(const session::Job& job, session::Session& session);
/// `folder`: the run's.
SavedRun saved_run(const session::Job& job, session::Session& session, std::filesystem::path folder = {});
/// What monitors are told of the process.
struct ProcessFacts {
  bool output_is_terminal = false;  ///< standard output
  std::string gpu_uuid = {};        ///< of this rank
  std::function<std::optional<std::string>(const std::string&)> environment = {};
  monitor::MemoryQuestions memory = {};  ///< but for what is held, which the session knows
};
/// A run in this folder.
LoopParts loop_parts(const session::Job& job, session::Session& session, const std::filesystem::path& folder,
                     const ProcessFacts& process = {});

}  // namespace train
CAPSTAN_END_NAMESPACE
