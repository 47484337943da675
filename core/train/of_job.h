#pragma once
#include <capstan/base/export.h>

#include "setup/session.h"
#include "train/evaluate.h"
#include "train/nonfinite.h"
#include "train/saving.h"
#include "train/step.h"

/// What each part of training takes of a job and its session, which both must outlive it.
CAPSTAN_BEGIN_NAMESPACE
namespace train {

Feed feed_of(const setup::Job& job);
Generator generator_of(const setup::Job& job, setup::Session& session);
Evaluator evaluator_of(const setup::Job& job, setup::Session& session, const Feed& feed);
LoadedModel loaded_model(setup::Session& session);
Step step_of(const setup::Job& job, setup::Session& session);
SavedRun saved_run(const setup::Job& job, setup::Session& session);
NonFiniteSetting nonfinite_setting(const setup::Job& job, std::filesystem::path folder);

}  // namespace train
CAPSTAN_END_NAMESPACE
